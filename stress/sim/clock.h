// Simulated time: it goes on by a microsecond with each look at it, and by what the scheduler says.
#pragma once

#include "actors/clock.h"

namespace tinyloop::sim {

class Scheduler;

class SimClock final : public actors::Clock {
 public:
  explicit SimClock(Scheduler& scheduler) : scheduler_(scheduler) {}

  // Others may run before the answer. So no two answers are the same.
  TimePoint now() const noexcept override;
  TimePoint peek() const noexcept { return now_; }
  void advance(std::chrono::microseconds by) { now_ += by; }

 private:
  Scheduler& scheduler_;
  mutable TimePoint now_{std::chrono::seconds(1000)};
};

}  // namespace tinyloop::sim
