// A prefix on its way to become a handle. Kind: PrefixCache or ResumeHandle.
#pragma once

#include <memory>
#include <utility>

#include "actors/answering_operation.h"
#include "actors/handle.h"

namespace tinyloop::actors {

template <class Kind>
class BuildOperation final : public AnsweringOperation<Kind> {
 public:
  // Takes the completion as the last thing: if this throws, it is still the caller's. `handle`: for
  // the prefix that the request keeps.
  BuildOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked,
                 Operation::Terms how, std::shared_ptr<Handle> handle,
                 detail::Completion<Kind>& completion)
      : AnsweringOperation<Kind>(std::move(inbox), std::move(checked), how),
        handle_(std::move(handle)),
        made_(handle_->lease()) {
    this->take(completion);
  }

  void on_prefix(engine::PrefixId made) noexcept override { made_->prefix = made; }

 private:
  void open() override;

  std::shared_ptr<Handle> handle_;
  LeaseRef made_;
};

extern template class BuildOperation<PrefixCache>;
extern template class BuildOperation<ResumeHandle>;

}  // namespace tinyloop::actors
