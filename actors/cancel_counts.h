// Where cancels have reached their requests: what a stress run is judged by.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tinyloop::actors {

// Where a request is at the moment when a cancel reaches it: when the replica's thread takes the
// cancel from its lane, or, for a request that is complete by then, when the canceller asks.
enum class CancelPhase : uint8_t {
  queued,      // not begun
  prefill,     // begun, no token sampled (a score: not ended)
  decode,      // a token has been sampled
  completing,  // its outcome is decided, its handler has not been started
  done,        // its handler has been started; a stream's: its end has been read
};
inline constexpr size_t kCancelPhases = 5;

// Any thread. A request counts once, by its first cancel.
class CancelCounts {
 public:
  void count(CancelPhase phase) noexcept {
    counts_[size_t(phase)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t at(CancelPhase phase) const noexcept {
    return counts_[size_t(phase)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kCancelPhases> counts_{};
};

}  // namespace tinyloop::actors
