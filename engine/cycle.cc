#include "engine/cycle.h"

#include <algorithm>

namespace tinyloop::engine {

namespace {

// What a shorter cycle may lose, for each held row pays with its latency.
constexpr double kTolerance = 0.01;
// What the present length may lose before it is changed.
constexpr double kPatience = 0.04;

}  // namespace

double rows_per_second(const RowsByDepth& rows, int32_t length, const PassCost& cost) {
  double leaving = 0;  // in a cycle
  double running = 0;  // in a pass: those that do not wait
  for (int32_t depth = 0; depth <= RowsByDepth::kDeepest; ++depth) {
    if (rows.at(depth) == 0) continue;
    const int32_t cycles = std::max(1, (depth + length - 1) / length);
    leaving += double(rows.at(depth)) / cycles;
    running += double(rows.at(depth)) * depth / (double(cycles) * length);
  }
  if (leaving == 0) return 0;
  return leaving / (length * cost.block.of(running) + cost.exchange(leaving));
}

int32_t best_cycle(const RowsByDepth& rows, int32_t longest, const PassCost& cost,
                   int32_t present) {
  int32_t deepest = RowsByDepth::kDeepest;
  while (deepest > 1 && rows.at(deepest) == 0) --deepest;
  longest = std::min(longest, deepest);
  double best = 0;
  for (int32_t length = 1; length <= longest; ++length) {
    best = std::max(best, rows_per_second(rows, length, cost));
  }
  if (present >= 1 && present <= longest &&
      rows_per_second(rows, present, cost) >= (1 - kPatience) * best) {
    return present;
  }
  for (int32_t length = 1; length < longest; ++length) {
    if (rows_per_second(rows, length, cost) >= (1 - kTolerance) * best) return length;
  }
  return longest;
}

}  // namespace tinyloop::engine
