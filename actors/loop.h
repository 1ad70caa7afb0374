// What one of the engine's threads does, turn by turn. Between two turns nothing of it is on the
// stack, so that a simulation can turn several of them on one thread, in an order of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "actors/waker.h"

namespace tinyloop::actors {

class Loop {
 public:
  struct Next {
    enum Kind : uint8_t {
      again,  // there is more to do
      sleep,  // until the bell rings; it may have rung since the turn began
      end,    // there are no more turns
    };
    Kind kind = again;
    std::optional<Waker::TimePoint> until{};  // no sleep lasts longer than until then
  };

  virtual ~Loop() = default;
  // On the loop's own thread, as all turns.
  virtual Next turn() noexcept = 0;
  // Whose bell wakes it. Constant; any thread.
  virtual Waker& waker() noexcept = 0;
};

// Turns the loop to its end on this thread.
void run(Loop& loop) noexcept;

}  // namespace tinyloop::actors
