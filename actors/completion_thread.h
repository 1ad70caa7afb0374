// The engine's own thread for handlers that have no executor.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>

#include "actors/engine_context.h"
#include "actors/named_thread.h"

namespace tinyloop::actors {

// The thread holds the io_context itself and runs until nothing is outstanding, so the owner may
// die anywhere, also in a handler on this thread.
class CompletionThread {
 public:
  explicit CompletionThread(const ContextRef& context);
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;
  // Waits until everything outstanding has run, unless called on the thread itself.
  ~CompletionThread();
  // The destructor will not wait.
  void let_go() noexcept { thread_.let_go(); }

  boost::asio::any_io_executor executor() const;
  // Held by a chain of handlers that post one another, until its last one has run. Null if
  // `executor` runs its handlers elsewhere.
  std::shared_ptr<void> hold_chain(const boost::asio::any_io_executor& executor) const;
  // Waits until the handlers posted before have run, and every chain; on the thread itself, returns
  // at once.
  void flush();

 private:
  using Executor = boost::asio::io_context::executor_type;

  std::shared_ptr<boost::asio::io_context> context_;
  boost::asio::executor_work_guard<Executor> work_;
  const std::shared_ptr<std::atomic<size_t>> chains_ = std::make_shared<std::atomic<size_t>>(0);
  NamedThread thread_;
};

}  // namespace tinyloop::actors
