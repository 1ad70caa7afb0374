// The time by which deadlines pass and durations are measured.
#pragma once

#include <chrono>

#include "tinyloop/generate.h"

namespace tinyloop::actors {

// Any thread. Never goes back. Not to be deleted by this base.
class Clock {
 public:
  virtual TimePoint now() const noexcept = 0;

  // std::chrono::steady_clock; simulations have their own. Usable to the very end of the process:
  // the thread of an engine that a handler was the last to own may outlive main().
  static const Clock& steady() noexcept;

 protected:
  ~Clock() = default;
};

}  // namespace tinyloop::actors
