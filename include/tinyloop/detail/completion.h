// A caller's completion handler with its type erased: the one thing that the templates of the
// public headers hand to the library.
#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/prefer.hpp>
#include <memory>
#include <utility>

#include "tinyloop/error.h"
#include "tinyloop/generate.h"

namespace tinyloop {
class Model;
struct Trace;
}  // namespace tinyloop

namespace tinyloop::detail {

// The executor counts as having work until the handler has run, so that a caller's run() waits for
// it. Move-only; called once or destroyed.
template <class... Results>
class Completion {
 public:
  Completion() = default;
  Completion(Completion&&) noexcept = default;
  // By swaps: the move assignment of any_completion_handler in Boost 1.81 calls itself for ever.
  Completion& operator=(Completion&& other) noexcept {
    std::swap(executor_, other.executor_);
    std::swap(slot_, other.slot_);
    kept_.swap(other.kept_);
    handler_.swap(other.handler_);
    return *this;
  }

  template <class Handler>
  Completion(Handler handler, const boost::asio::any_io_executor& fallback)
      : executor_(boost::asio::prefer(
            boost::asio::any_io_executor(boost::asio::get_associated_executor(handler, fallback)),
            boost::asio::execution::outstanding_work.tracked)),
        slot_(boost::asio::get_associated_cancellation_slot(handler)),
        handler_(std::move(handler)) {}

  explicit operator bool() const noexcept { return static_cast<bool>(handler_); }
  const boost::asio::any_io_executor& executor() const noexcept { return executor_; }
  boost::asio::cancellation_slot slot() const noexcept { return slot_; }

  // Holds `what` until just before the handler runs.
  void keep(std::shared_ptr<const void> what) noexcept { kept_ = std::move(what); }

  // Posts the handler to its executor, from any thread; never runs it here. If the executor cannot
  // take it for want of memory, the handler is destroyed without having run.
  void post(error_code error, Results... results) noexcept;

  // Runs the handler. Only on its executor.
  void invoke(error_code error, Results... results) {
    kept_.reset();
    auto handler = std::move(handler_);
    std::move(handler)(error, std::move(results)...);
  }

 private:
  boost::asio::any_io_executor executor_;
  boost::asio::cancellation_slot slot_;
  std::shared_ptr<const void> kept_;
  boost::asio::any_completion_handler<void(error_code, Results...)> handler_;
};

extern template class TINYLOOP_API Completion<>;
extern template class TINYLOOP_API Completion<size_t>;
extern template class TINYLOOP_API Completion<GenerateResult>;
extern template class TINYLOOP_API Completion<ScoreResult>;
extern template class TINYLOOP_API Completion<StreamChunk>;
extern template class TINYLOOP_API Completion<Model>;
extern template class TINYLOOP_API Completion<PrefixCache>;
extern template class TINYLOOP_API Completion<ResumeHandle>;
extern template class TINYLOOP_API Completion<int32_t>;
extern template class TINYLOOP_API Completion<PoolEntryInfo>;
extern template class TINYLOOP_API Completion<Trace>;

}  // namespace tinyloop::detail
