// A thread with a name that calls the owner's hooks first and last.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "actors/engine_context.h"

namespace tinyloop::actors {

class NamedThread {
 public:
  NamedThread() = default;
  NamedThread(const NamedThread&) = delete;
  NamedThread& operator=(const NamedThread&) = delete;
  ~NamedThread() { join(); }

  // Once. `name`: at most 15 bytes, the system's bound. `body` must not throw; what it holds is
  // destroyed on the thread, last. Throws std::system_error if no thread can be started.
  void start(const std::string& name, ContextRef context, std::function<void()> body);
  // The same for a loop; the platform may turn it without a thread.
  void start(const std::string& name, ContextRef context, std::shared_ptr<Loop> loop);
  bool is_current() const noexcept { return thread_.get_id() == std::this_thread::get_id(); }
  // Waits for the end of the thread; on the thread itself, lets it end alone.
  void join() noexcept;
  // Lets the thread end alone.
  void let_go() noexcept {
    if (thread_.joinable()) thread_.detach();
  }

 private:
  std::thread thread_;
};

}  // namespace tinyloop::actors
