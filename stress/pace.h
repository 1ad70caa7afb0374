// How long requests take at the moment: what a cancel is aimed by.
#pragma once

#include <atomic>
#include <chrono>

#include "tinyloop/generate.h"

namespace tinyloop::stress {

// Any thread. Moving averages; they need not be exact, only follow the machine's speed.
class Pace {
 public:
  void note(const Timings& timings) {
    queue_us_.note(timings.queue_us);
    prefill_us_.note(timings.prefill_us);
  }

  // From the submission to the given share (0 … 1) of the prefill.
  std::chrono::microseconds until_prefill(double share) const {
    return std::chrono::microseconds(int64_t(queue_us_.value() + share * prefill_us_.value()));
  }

 private:
  class Average {
   public:
    void note(double value) {
      constexpr double kWeight = 0.1;
      value_.store(value_.load() + kWeight * (value - value_.load()));
    }
    double value() const { return value_.load(); }

   private:
    std::atomic<double> value_{0};
  };

  Average queue_us_, prefill_us_;
};

}  // namespace tinyloop::stress
