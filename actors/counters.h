// What a replica counts. The callers' threads and the replica's thread write, any thread reads.
#pragma once

#include <atomic>
#include <cstdint>

#include "actors/operation.h"
#include "engine/batch_engine.h"
#include "tinyloop/reports.h"

namespace tinyloop::actors {

class Counters {
 public:
  // Any thread.
  void count_rejected(const error_code& error) noexcept;

  // Replica thread.
  void count_accepted() noexcept { ++accepted_; }
  void count_completed(const Outcome& outcome) noexcept;
  void count_step(const engine::StepOutcome& step) noexcept;
  void count_failure() noexcept { ++failures_; }

  // Any thread. What a device counts is not among it.
  Statistics snapshot() const noexcept;
  uint64_t out_of_memory() const noexcept { return out_of_memory_.load(); }
  uint64_t failures() const noexcept { return failures_.load(); }

 private:
  using Counter = std::atomic<uint64_t>;
  Counter accepted_{0}, rejected_{0};
  Counter ok_{0}, cancelled_{0}, deadline_{0}, failed_{0};
  Counter passes_{0}, block_rows_{0}, prompt_tokens_{0}, generated_tokens_{0};
  Counter out_of_memory_{0}, failures_{0};
};

}  // namespace tinyloop::actors
