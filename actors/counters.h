// What a replica counts. The callers' threads and the replica's thread write, any thread reads.
#pragma once

#include <atomic>
#include <cstdint>

#include "actors/operation.h"
#include "engine/batch_engine.h"
#include "tinyloop/metrics.h"

namespace tinyloop::actors {

class Counters {
 public:
  // Any thread.
  void count_rejected(const error_code& error) noexcept;
  // A prompt has been looked up in a pool: `positions` of it are there.
  void count_lookup(int32_t positions) noexcept;

  // Replica thread.
  void count_accepted() noexcept { ++accepted_; }
  void count_completed(const Outcome& outcome) noexcept;
  void count_step(const engine::StepOutcome& step) noexcept;
  void count_failure() noexcept { ++failures_; }

  // Any thread. What a device counts is not among it.
  Statistics snapshot() const noexcept;
  Rejections rejections() const noexcept;
  PoolLookups lookups() const noexcept {
    return {.hits = hits_, .misses = misses_, .tokens_saved = tokens_saved_};
  }
  uint64_t out_of_memory() const noexcept { return out_of_memory_.load(); }
  uint64_t failures() const noexcept { return failures_.load(); }

 private:
  using Counter = std::atomic<uint64_t>;
  Counter accepted_{0}, rejected_{0};
  Counter invalid_{0}, overloaded_{0}, too_large_{0}, closed_{0}, other_{0};  // of the rejected
  Counter hits_{0}, misses_{0}, tokens_saved_{0};
  Counter ok_{0}, cancelled_{0}, deadline_{0}, failed_{0};
  Counter passes_{0}, block_rows_{0}, prompt_tokens_{0}, generated_tokens_{0}, preemptions_{0};
  Counter out_of_memory_{0}, failures_{0};
};

}  // namespace tinyloop::actors
