// A prefix on its way to become a handle. Kind: PrefixCache or ResumeHandle.
#pragma once

#include <memory>
#include <utility>

#include "actors/handle.h"
#include "actors/operation.h"
#include "tinyloop/detail/completion.h"

namespace tinyloop::actors {

template <class Kind>
class BuildOperation final : public Operation {
 public:
  // Takes the completion as the last thing: if this throws, it is still the caller's. `handle`: for
  // the prefix that the request keeps.
  BuildOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked, Terms how,
                 std::shared_ptr<Handle> handle, detail::Completion<Kind>& completion)
      : Operation(std::move(inbox), std::move(checked), how),
        handle_(std::move(handle)),
        made_(handle_->lease()) {
    set_address(completion.executor());
    completion_ = std::move(completion);
  }

  void on_prefix(engine::PrefixId made) noexcept override { made_->prefix = made; }

 private:
  void deliver(OnThread thread) noexcept override { send(thread); }
  const boost::asio::any_io_executor& executor() const noexcept override {
    return completion_.executor();
  }
  void open() override;
  void lose() noexcept override { const auto lost = std::move(completion_); }

  std::shared_ptr<Handle> handle_;
  LeaseRef made_;
  detail::Completion<Kind> completion_;
};

extern template class BuildOperation<PrefixCache>;
extern template class BuildOperation<ResumeHandle>;

}  // namespace tinyloop::actors
