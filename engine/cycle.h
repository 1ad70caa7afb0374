// When rows may enter and leave. Prelude, coda and head read their weights once for all rows that
// go through them together, so it can pay to let rows that have reached their depth wait for
// others: passes come in cycles, rows enter in the first pass of a cycle and leave in its last. A
// row of depth d then takes d rounded up to whole cycles, and rows of one depth, whenever they
// came, are in step from their second token on.
//
// Which length pays is weighed by the cost of passes (engine/pass_cost.h): where the block is most
// of the model, rows had better leave at once; where the other layers weigh more than a pass, or
// all rows have one depth, they had better go together. Pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/limits.h"
#include "engine/pass_cost.h"

namespace tinyloop::engine {

struct Cycle {
  int32_t length = 1;
  int32_t passes = 0;  // of it that have run; 0: rows may enter

  bool operator==(const Cycle&) const = default;
};

// Rows by the number of iterations that they run between entering and leaving.
class RowsByDepth {
 public:
  static constexpr int32_t kDeepest = base::kMaxHoldPasses + 1;  // the longest cycle there is

  // depth >= 0; what is deeper than kDeepest counts as that deep.
  void add(int32_t depth, int32_t rows) { rows_[size_t(std::min(depth, kDeepest))] += rows; }
  int32_t at(int32_t depth) const { return rows_[size_t(depth)]; }

 private:
  std::array<int32_t, kDeepest + 1> rows_{};
};

// Rows that leave in a second, while these rows go on and others take the place of those that have
// left, in cycles of `length` passes.
double rows_per_second(const RowsByDepth& rows, int32_t length, const PassCost& cost);

// The length that lets the most rows leave in a second: 1 .. `longest`; 1 for no rows. `present`,
// the length so far, stays where it is nearly as good, for rows under way are in step with it;
// else, of nearly equal ones, it is the shortest.
int32_t best_cycle(const RowsByDepth& rows, int32_t longest, const PassCost& cost,
                   int32_t present = 0);

}  // namespace tinyloop::engine
