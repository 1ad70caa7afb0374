// Opens once, when a replica has ended, and tells everyone who asked to know.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace tinyloop::actors {

// Any thread. The lock is held for a moment only, and only when something ends.
class ClosedLatch {
 public:
  using Callback = std::function<void()>;

  // Room for a few who ask is there from the start.
  ClosedLatch() { callbacks_.reserve(4); }

  // Calls `callback` once: on this thread now if it is open, else on the thread that opens it.
  // `callback` must not throw.
  void when_open(Callback callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_open_) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback();
  }

  void open() {
    std::vector<Callback> callbacks;
    {
      const std::lock_guard lock(mutex_);
      is_open_ = true;
      callbacks.swap(callbacks_);
    }
    for (const Callback& callback : callbacks) callback();
  }

 private:
  std::mutex mutex_;
  bool is_open_ = false;
  std::vector<Callback> callbacks_;
};

}  // namespace tinyloop::actors
