// A simulated device from outside: what it is like, what goes wrong with it, what it has done. It
// outlives the backend that stands for it, and may get another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace tinyloop::sim {

struct Device {
  // What it is like; drawn before the load.
  size_t layer_bytes = size_t{1} << 20;  // of 16 positions in one layer: slabs of 1 to 8 pages
  size_t capacity = 0;                   // bytes; 0: no end of them
  bool runs_ahead = false;
  size_t slow_one_in = 0;  // of so many waits one takes long; 0: none

  // Faults to come: the n-th from now; 0: none.
  uint64_t refuse_in = 0;  // allocations
  uint64_t break_in = 0;   // ops, copies and waits; every later one fails, too
  uint64_t spoil_in = 0;   // rows of logits
  bool full = false;       // every allocation is refused

  // What has happened.
  bool broken = false;
  uint64_t breaks = 0;  // times it broke
  uint64_t refused = 0, spoiled = 0, slow = 0, passes = 0;
  size_t bytes = 0;  // handed out
  bool alive = false;

  // True: the fault falls due with this one.
  static bool due(uint64_t& in) { return in > 0 && --in == 0; }
  bool is_empty() const { return bytes == 0 && !alive; }
  // At whatever the device does.
  void may_break() {
    if (due(break_in)) broken = true, ++breaks;
    if (broken) throw base::Failure(errc::replica_failed, "the simulated device broke down");
  }
};

}  // namespace tinyloop::sim
