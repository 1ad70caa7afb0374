#include "actors/bucket_counts.h"

namespace tinyloop::actors {

Histogram BucketCounts::snapshot() const {
  Histogram histogram;
  histogram.bounds.assign(bounds_.begin(), bounds_.end());
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    histogram.counts.push_back(counts_[i].load(std::memory_order_relaxed));
  }
  histogram.sum = sum_.load(std::memory_order_relaxed);
  return histogram;
}

}  // namespace tinyloop::actors
