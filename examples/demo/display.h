// Shows the tales while they are being told.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "board.h"

namespace demo {

class Display {
 public:
  virtual ~Display() = default;
  // Called now and then with a newer state, and once at the end.
  virtual void show(const Snapshot& snapshot) = 0;
};

// A terminal gets a panel that is redrawn in place, one line a caller; anything else, and `plain`,
// gets one line for each tale that has ended.
std::unique_ptr<Display> make_display(bool plain);

}  // namespace demo
