// An operation whose outcome is one answer to one completion.
#pragma once

#include <memory>
#include <utility>

#include "actors/operation.h"
#include "tinyloop/detail/completion.h"

namespace tinyloop::actors {

template <class Answer>
class AnsweringOperation : public Operation {
 protected:
  using Operation::Operation;

  // The last thing of a constructor: if anything throws before, the completion is still the
  // caller's.
  void take(detail::Completion<Answer>& completion) {
    set_address(completion.executor());
    completion_ = std::move(completion);
  }
  // From open().
  void answer(error_code error, Answer value) {
    set_handled();
    auto completion = std::move(completion_);
    completion.invoke(error, std::move(value));
  }

 private:
  void deliver(OnThread thread) noexcept final { send(thread); }
  const boost::asio::any_io_executor& executor() const noexcept final {
    return completion_.executor();
  }
  void lose() noexcept final { const auto lost = std::move(completion_); }

  detail::Completion<Answer> completion_;
};

}  // namespace tinyloop::actors
