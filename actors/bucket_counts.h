// The counts behind a Histogram: one thread writes at a time, any thread reads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tinyloop/metrics.h"

namespace tinyloop::actors {

class BucketCounts {
 public:
  static constexpr size_t kMostBounds = 20;

  // `bounds`: rising, at most kMostBounds, valid as long as this.
  explicit BucketCounts(std::span<const double> bounds) noexcept : bounds_(bounds) {}

  void count(double value) noexcept {
    size_t bucket = 0;
    while (bucket < bounds_.size() && value > bounds_[bucket]) ++bucket;
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_.store(sum_.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }

  Histogram snapshot() const;

 private:
  const std::span<const double> bounds_;
  std::array<std::atomic<uint64_t>, kMostBounds + 1> counts_{};
  std::atomic<double> sum_{0};
};

}  // namespace tinyloop::actors
