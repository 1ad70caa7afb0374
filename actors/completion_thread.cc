#include "actors/completion_thread.h"

#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <future>

#include "actors/error.h"

namespace tinyloop::actors {

namespace {

// A handler that throws leaves run(); the ones after it must still come.
void run_all(boost::asio::io_context& context, const base::LogSink& log) {
  for (;;) {
    try {
      context.run();
      return;
    } catch (...) {
      log(base::LogLevel::error, current_error("exception out of a completion handler").detail);
    }
  }
}

}  // namespace

CompletionThread::CompletionThread(const ContextRef& context)
    : context_(std::make_shared<boost::asio::io_context>(1)), work_(context_->get_executor()) {
  thread_.start("tinyloop-done", context, [io = context_, context] { run_all(*io, context->log); });
}

CompletionThread::~CompletionThread() {
  work_.reset();
  thread_.join();
}

boost::asio::any_io_executor CompletionThread::executor() const {
  return context_->get_executor();
}

std::shared_ptr<void> CompletionThread::hold_chain(
    const boost::asio::any_io_executor& executor) const {
  const auto& context = boost::asio::query(executor, boost::asio::execution::context);
  if (&context != context_.get()) return nullptr;
  chains_->fetch_add(1);
  return {chains_.get(), [chains = chains_](void*) { chains->fetch_sub(1); }};
}

void CompletionThread::flush() {
  if (thread_.is_current()) return;
  do {
    const auto reached = std::make_shared<std::promise<void>>();
    boost::asio::post(*context_, [reached] { reached->set_value(); });
    reached->get_future().wait();
  } while (chains_->load() > 0);
}

}  // namespace tinyloop::actors
