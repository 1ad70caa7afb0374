// A prefix on its way into a pool.
#pragma once

#include <utility>

#include "actors/answering_operation.h"

namespace tinyloop::actors {

class RegisterOperation final : public AnsweringOperation<int32_t> {
 public:
  // Takes the completion as the last thing: if this throws, it is still the caller's.
  RegisterOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked, Terms how,
                    detail::Completion<int32_t>& completion)
      : AnsweringOperation(std::move(inbox), std::move(checked), how) {
    take(completion);
  }

 private:
  void open() override;
};

}  // namespace tinyloop::actors
