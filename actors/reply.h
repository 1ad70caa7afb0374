// The completion of an operation that is not a request: load, trim, unload, shutdown.
#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <new>
#include <tuple>
#include <utility>

#include "actors/error.h"
#include "actors/parcel.h"
#include "tinyloop/detail/completion.h"

namespace tinyloop::actors {

template <class... Results>
class Reply final : public Parcel {
 public:
  // Takes the completion as the last thing: if this throws, it is still the caller's.
  explicit Reply(detail::Completion<Results...>& completion) {
    set_address(completion.executor());
    completion_ = std::move(completion);
  }

  // Once, before the reply is sent.
  void set(error_code error, Results... results) noexcept {
    error_ = error;
    results_ = {std::move(results)...};
  }

 private:
  const boost::asio::any_io_executor& executor() const noexcept override {
    return completion_.executor();
  }
  void open() override {
    auto completion = std::move(completion_);
    std::apply([&](Results&... values) { completion.invoke(error_, std::move(values)...); },
               results_);
  }
  void lose() noexcept override {
    const auto lost = std::move(completion_);
    results_ = {};
  }

  detail::Completion<Results...> completion_;
  error_code error_;
  std::tuple<Results...> results_;
};

template <class... Results>
using ReplyPtr = boost::intrusive_ptr<Reply<Results...>>;

// Null: there is no memory, and the completion has been told so.
template <class... Results>
ReplyPtr<Results...> make_reply(detail::Completion<Results...> completion) {
  try {
    return ReplyPtr<Results...>(new Reply<Results...>(completion));
  } catch (const std::bad_alloc&) {
    completion.post(make_error(errc::out_of_memory, {}), Results{}...);
    return nullptr;
  }
}

}  // namespace tinyloop::actors
