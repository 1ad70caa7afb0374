// One step of the replica, decided in full: a pass of the shared block over the rows in flight.
//
// A plan holds everything that the runner needs and nothing that a device decides: tokens, places
// in the residual buffer, page numbers. Carrying out the same plans in the same order on a fresh
// cache gives the same bits, so a log of plans is a replayable record of a replica's life.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/page_table.h"

namespace tinyloop::engine {

// Rows of one sequence at consecutive positions that travel through the depth together.
struct ChunkStep {
  static constexpr int32_t kHeld = -1;

  uint64_t sequence = 0;
  int32_t rows = 0;
  int32_t first_position = 0;
  int32_t depth = 0;      // loop iterations these rows run in all
  int32_t iteration = 0;  // the one they run in this pass, from 0; kHeld: none
  int32_t window = 0;
  bool enters = false;    // runs embedding and prelude before the iteration
  bool restores = false;  // instead: takes the residual stream from the cached prefix `prefix`
  bool leaves = false;    // this is the rows' last pass
  bool coda = false;      // leaving, runs the coda, and the head for the last `logit_rows` rows
  uint64_t prefix = 0;    // PrefixId
  uint64_t keeps = 0;     // PrefixId whose snapshot the leaving rows are for; 0: none
  int32_t logit_rows = 0;
  int32_t first_row = 0;      // into StepPlan::tokens and slots
  int32_t pages = 0;          // entries of each page table below
  int32_t prelude_table = 0;  // first entry in StepPlan::prelude_pages
  int32_t coda_table = 0;     // first entry in StepPlan::coda_pages
  int32_t loop_table = 0;     // first entry in StepPlan::loop_pages, the table of this iteration

  bool operator==(const ChunkStep&) const = default;
};

struct StepPlan {
  uint64_t pass = 0;             // counts from 0
  std::vector<PageCopy> copies;  // carried out first
  std::vector<ChunkStep> chunks;
  std::vector<int32_t> tokens;         // one a row
  std::vector<int32_t> slots;          // one a row: its line of the residual buffer
  std::vector<int32_t> prelude_pages;  // page numbers; PagePool::kNoPage where given back
  std::vector<int32_t> coda_pages;
  std::vector<int32_t> loop_pages;

  bool operator==(const StepPlan&) const = default;
  void clear();
};

// JSON, one line a plan; parse_plan is its inverse. Errors: invalid_argument with what is wrong.
std::string print_plan(const StepPlan& plan);
base::Result<StepPlan> parse_plan(const std::string& line);

}  // namespace tinyloop::engine
