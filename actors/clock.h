// The time by which deadlines pass and durations are measured.
#pragma once

#include <chrono>

#include "tinyloop/generate.h"

namespace tinyloop::actors {

// Any thread. Never goes back.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const noexcept = 0;

  // std::chrono::steady_clock; simulations have their own.
  static const Clock& steady() noexcept;
};

}  // namespace tinyloop::actors
