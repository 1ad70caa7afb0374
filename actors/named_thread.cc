#include "actors/named_thread.h"

#include <pthread.h>

#include <utility>

#include "actors/error.h"

namespace tinyloop::actors {

namespace {

void run_hook(const EngineContext& context, const std::function<void()>& hook, const char* name) {
  if (!hook) return;
  try {
    hook();
  } catch (...) {
    context.log(base::LogLevel::error, current_error(name).detail);
  }
}

}  // namespace

void NamedThread::start(const std::string& name, ContextRef context, std::function<void()> body) {
  thread_ = std::thread([name, context = std::move(context), body = std::move(body)]() mutable {
    pthread_setname_np(pthread_self(), name.c_str());
    run_hook(*context, context->on_thread_start, "on_thread_start");
    body();
    run_hook(*context, context->on_thread_stop, "on_thread_stop");
    body = nullptr;
  });
}

void NamedThread::start(const std::string& name, ContextRef context, std::shared_ptr<Loop> loop) {
  if (context->platform.take_loop) return context->platform.take_loop(name, std::move(loop));
  start(name, std::move(context), [loop = std::move(loop)] { run(*loop); });
}

void NamedThread::join() noexcept {
  if (!thread_.joinable()) return;
  if (is_current()) return let_go();
  thread_.join();
}

}  // namespace tinyloop::actors
