#include "engine/cycle.h"

#include <gtest/gtest.h>

namespace tinyloop::engine {
namespace {

RowsByDepth uniform(int32_t deepest, int32_t rows_each) {
  RowsByDepth rows;
  for (int32_t depth = 1; depth <= deepest; ++depth) rows.add(depth, rows_each);
  return rows;
}

RowsByDepth all_at(int32_t depth, int32_t rows) {
  RowsByDepth result;
  result.add(depth, rows);
  return result;
}

// Costs in megabytes of weights.
PassCost weights_alone(double block, double others) {
  return {
      .prelude = {.fixed = others / 2}, .block = {.fixed = block}, .coda = {.fixed = others / 2}};
}

TEST(Cycle, CountsWhatLeavesAndWhatItCosts) {
  const PassCost cost = weights_alone(115, 165);
  // 64 rows at depth 8, in step: one exchange in eight passes.
  EXPECT_DOUBLE_EQ(rows_per_second(all_at(8, 64), 8, cost), 64 / (8 * 115.0 + 165));
  // Out of step, an eighth of them leaves in every pass.
  EXPECT_DOUBLE_EQ(rows_per_second(all_at(8, 64), 1, cost), 8 / (115.0 + 165));
  // In cycles of two, one of depth 1 waits and one of depth 3 takes four passes.
  RowsByDepth rows;
  rows.add(1, 4);
  rows.add(3, 4);
  EXPECT_DOUBLE_EQ(rows_per_second(rows, 2, cost), (4 + 2) / (2 * 115.0 + 165));
  EXPECT_EQ(rows_per_second(RowsByDepth(), 2, cost), 0);
}

TEST(Cycle, ThoseWhoWaitCostNoPass) {
  const PassCost cost{.block = {.fixed = 1, .per_row = 1}};
  // Of four rows of depth 1 in cycles of two, two are running on average.
  EXPECT_DOUBLE_EQ(rows_per_second(all_at(1, 4), 2, cost), 4 / (2 * (1 + 2.0)));
}

TEST(Cycle, RowsOfOneDepthGoTogether) {
  for (const int32_t depth : {1, 2, 5, 8}) {
    EXPECT_EQ(best_cycle(all_at(depth, 64), 8, weights_alone(115, 165)), depth);
    EXPECT_EQ(best_cycle(all_at(depth, 4), 8, weights_alone(115, 165)), depth);
  }
  // No longer than allowed: the longest that divides the depth is in step as well.
  EXPECT_EQ(best_cycle(all_at(12, 64), 8, weights_alone(115, 165)), 6);
  EXPECT_EQ(best_cycle(all_at(100, 64), 64, weights_alone(115, 165)), 64);
}

// The two models that docs/benchmarks.md works out.
TEST(Cycle, FollowsTheWeights) {
  // Of rows whose requests have depths uniform on 1 to 8, the deep ones are longer under way.
  RowsByDepth under_way;
  for (int32_t depth = 1; depth <= 8; ++depth) under_way.add(depth, depth * 2);
  const int32_t outer_heavy = best_cycle(under_way, 8, weights_alone(115, 165));
  EXPECT_GE(outer_heavy, 2);
  EXPECT_LE(outer_heavy, 4);
  EXPECT_EQ(best_cycle(uniform(4, 16), 8, weights_alone(170, 6)), 1);
}

// A length is changed for something better, not for a trifle.
TEST(Cycle, ThePresentLengthStaysWhereItIsNearlyAsGood) {
  const PassCost cost = weights_alone(115, 165);
  RowsByDepth rows;
  for (int32_t depth = 1; depth <= 8; ++depth) rows.add(depth, depth * 2);
  const double best = rows_per_second(rows, best_cycle(rows, 8, cost), cost);
  for (int32_t present = 1; present <= 8; ++present) {
    const bool good = rows_per_second(rows, present, cost) >= 0.96 * best;
    EXPECT_EQ(best_cycle(rows, 8, cost, present) == present, good) << present;
  }
  EXPECT_LE(best_cycle(rows, 2, cost, 4), 2);  // no longer allowed
}

TEST(Cycle, AmongEqualsTheShortest) {
  EXPECT_EQ(best_cycle(uniform(8, 8), 8, {.block = {.fixed = 1, .per_row = 100}}), 1);
  EXPECT_EQ(best_cycle(RowsByDepth(), 8, weights_alone(1, 1)), 1);
  EXPECT_EQ(best_cycle(all_at(0, 5), 8, weights_alone(1, 1)), 1);
}

}  // namespace
}  // namespace tinyloop::engine
