// Callers at the same time on one model, and what that took.
#pragma once

#include <tinyloop/tinyloop.h>

#include <vector>

#include "board.h"
#include "display.h"

namespace demo {

struct Run {
  Snapshot result;
  uint64_t passes = 0;
  uint64_t block_rows = 0;        // rows that went through the shared block
  tinyloop::MemoryReport memory;  // at the end, with the page arena at its largest

  double rows_per_pass() const { return passes > 0 ? double(block_rows) / double(passes) : 0; }
};

// Starts every request at once, each read by a coroutine of its own, and returns when all of them
// have ended. `display` may be null.
Run run_callers(const tinyloop::Model& model,
                const std::vector<tinyloop::GenerateRequest>& requests, Display* display);

}  // namespace demo
