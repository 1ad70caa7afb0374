// The owner of loaded models and of the threads that run them.
//
//   tinyloop::Engine engine;
//   tinyloop::Model model = engine.load("model.gguf");
//   auto result = model.async_generate({.text = "Once"}, boost::asio::use_future).get();
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tinyloop/detail/operations.h"
#include "tinyloop/log.h"
#include "tinyloop/model.h"
#include "tinyloop/options.h"

namespace tinyloop {

struct EngineOptions {
  // Runs the handlers that have no executor of their own. Its context must outlive the engine, its
  // models and their requests. Unset: the engine runs them on one thread of its own.
  std::optional<boost::asio::any_io_executor> executor;
  // Empty: messages go to stderr.
  LogSink log;
  // The least level that is logged, of this engine alone, whichever sink it has; below it a message
  // is not even put together. docs/options.md lists what is said at each.
  LogLevel log_level = LogLevel::warning;
  // Called on each replica's thread and on the engine's own two, first and last, to set affinity
  // and the like. What they throw is logged. The CPU backend's workers are started by the replica's
  // thread and inherit its affinity; the hooks do not run on them.
  std::function<void()> on_thread_start;
  std::function<void()> on_thread_stop;
};

// Threads: one per loaded model ("tinyloop-r0", …), which never runs code of the caller's save the
// hooks and the log sink; "tinyloop-post", which posts to those executors of the caller's that are
// not simply an io_context's; and "tinyloop-done" for handlers without an executor, unless
// EngineOptions::executor is set. An exception out of a handler there is logged and goes no
// further; on an executor of the caller's it goes where Asio's rule says, out of the caller's
// run().
//
// A handler's executor must be one that posts without waiting. Its context must not be destroyed
// before its run() (or join()) has returned for want of work, or the engine has been shut down; a
// context that is destroyed later, or while it is stopped, destroys the handlers that wait in it
// without running them, and nothing else is lost. One that throws in a post loses that handler.
//
// Handlers made by use_future have an executor of their own, Asio's system executor; so get() never
// deadlocks, not even inside a completion handler.
//
// Every member may be called from any thread at any time, save move and destruction.
class TINYLOOP_API Engine {
 public:
  using executor_type = boost::asio::any_io_executor;

  // Throws std::system_error if no thread can be started.
  explicit Engine(EngineOptions options = {});
  Engine(Engine&& other) noexcept = default;
  Engine& operator=(Engine&& other) noexcept;
  // shutdown(cancel), then waits for the engine's threads: when it returns, every request has
  // completed, and the handlers due on the engine's own thread have run. So it must not be called
  // while holding what such a handler waits for. It may be called inside a handler, or where one is
  // destroyed; then it does not wait for the thread it runs on.
  ~Engine();

  // void(error_code, Model). Reads and checks the file and uploads it, on the new model's thread.
  // Errors: invalid_argument, io_error, bad_model_file, unsupported_model, out_of_memory, shutdown,
  // overloaded (no thread can be started), replica_failed (the device reports an error), internal.
  // A cancelled load gives everything back and then completes with operation_aborted.
  template <boost::asio::completion_token_for<void(error_code, Model)> Token>
  auto async_load(std::string path, ModelOptions options, Token&& token) {
    return boost::asio::async_initiate<Token, void(error_code, Model)>(
        [state = state_](auto handler, std::string file, ModelOptions copy) {
          detail::load(state, std::move(file), std::move(copy),
                       {std::move(handler), detail::default_executor(state)});
        },
        token, std::move(path), std::move(options));
  }

  // The blocking form, allowed anywhere, also inside a handler. Throws boost::system::system_error.
  Model load(std::string path, ModelOptions options = {});

  // Refuses new work and ends every model. Returns when all requests have completed (their handlers
  // have been posted) and the models' memory is back. `cancel` cuts an earlier `drain` short.
  void shutdown(ShutdownMode mode);

  // void(error_code): the same without blocking. Cannot be cancelled.
  template <boost::asio::completion_token_for<void(error_code)> Token>
  auto async_shutdown(ShutdownMode mode, Token&& token) {
    return boost::asio::async_initiate<Token, void(error_code)>(
        [state = state_, mode](auto handler) {
          detail::shutdown(state, mode, {std::move(handler), detail::default_executor(state)});
        },
        token);
  }

  // Valid as long as the engine or one of its models lives.
  executor_type get_executor() const { return detail::default_executor(state_); }

 private:
  void close() noexcept;

  detail::EngineRef state_;
};

}  // namespace tinyloop
