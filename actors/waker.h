// How the replica's thread sleeps while there is nothing to do.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace tinyloop::actors {

// Consumer: epoch(), look for work, and if there is none park(that epoch). A wake() after epoch()
// makes park() return at once, so none is lost.
class Waker {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Any thread, after making the work visible.
  void wake() noexcept {
    epoch_.fetch_add(1);
    epoch_.notify_one();
    if (!timed_.load()) return;
    const std::lock_guard lock(mutex_);  // the consumer is asleep, or has seen the new epoch
    timer_.notify_one();
  }

  // The consumer alone.
  uint32_t epoch() const noexcept { return epoch_.load(); }
  void park(uint32_t seen) const noexcept { epoch_.wait(seen); }
  // The same, but no longer than until then.
  void park(uint32_t seen, const std::optional<TimePoint>& until) {
    if (!until) return park(seen);
    std::unique_lock lock(mutex_);
    timed_.store(true);
    timer_.wait_until(lock, *until, [&] { return epoch_.load() != seen; });
    timed_.store(false);
  }

 private:
  std::atomic<uint32_t> epoch_{0};
  std::atomic<bool> timed_{false};
  std::mutex mutex_;
  std::condition_variable timer_;
};

}  // namespace tinyloop::actors
