// How the replica's thread sleeps while there is nothing to do.
#pragma once

#include <atomic>
#include <cstdint>

namespace tinyloop::actors {

// Consumer: epoch(), look for work, and if there is none park(that epoch). A wake() after epoch()
// makes park() return at once, so none is lost.
class Waker {
 public:
  // Any thread, after making the work visible.
  void wake() noexcept {
    epoch_.fetch_add(1);
    epoch_.notify_one();
  }

  // The consumer alone.
  uint32_t epoch() const noexcept { return epoch_.load(); }
  void park(uint32_t seen) const noexcept { epoch_.wait(seen); }

 private:
  std::atomic<uint32_t> epoch_{0};
};

}  // namespace tinyloop::actors
