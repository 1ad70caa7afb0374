// A prefix on its way into a pool.
#pragma once

#include <utility>

#include "actors/operation.h"
#include "tinyloop/detail/completion.h"

namespace tinyloop::actors {

class RegisterOperation final : public Operation {
 public:
  // Takes the completion as the last thing: if this throws, it is still the caller's.
  RegisterOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked, Terms how,
                    detail::Completion<int32_t>& completion)
      : Operation(std::move(inbox), std::move(checked), how) {
    set_address(completion.executor());
    completion_ = std::move(completion);
  }

 private:
  void deliver(OnThread thread) noexcept override { send(thread); }
  const boost::asio::any_io_executor& executor() const noexcept override {
    return completion_.executor();
  }
  void open() override;
  void lose() noexcept override { const auto lost = std::move(completion_); }

  detail::Completion<int32_t> completion_;
};

}  // namespace tinyloop::actors
