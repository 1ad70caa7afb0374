#include "engine/planner.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/step_plan.h"

namespace tinyloop::engine {
namespace {

constexpr int32_t kHeld = ChunkStep::kHeld;

SequenceProgress waiting(int32_t ready, int32_t prompt, int32_t depth, uint64_t since) {
  return {.ready = ready, .done = 0, .prompt = prompt, .depth = depth, .ready_since = since};
}

SequenceProgress decoding(int32_t done, int32_t depth, uint64_t since) {
  return {.ready = done + 1, .done = done, .prompt = done, .depth = depth, .ready_since = since};
}

std::vector<Decision> plan(const std::vector<SequenceProgress>& sequences,
                           const PlannerLimits& limits) {
  std::vector<int32_t> entrance;
  std::vector<Decision> decisions;
  decide(sequences, limits, entrance, decisions);
  return decisions;
}

TEST(Planner, NothingToDo) {
  EXPECT_TRUE(plan({}, {.rows = 8, .prefill_budget = 8}).empty());
  EXPECT_TRUE(plan({{.ready = 3, .done = 3}}, {.rows = 8, .prefill_budget = 8}).empty());
}

TEST(Planner, DepthOneEntersAndLeavesInOnePass) {
  const auto decisions = plan({waiting(5, 5, 1, 0)}, {.rows = 8, .prefill_budget = 8});
  EXPECT_EQ(decisions, (std::vector<Decision>{{0, 5, 0, true, true}}));
}

TEST(Planner, PromptIsCutByTheBudgetBesideDecodeRows) {
  const auto decisions = plan({waiting(100, 100, 4, 0), decoding(7, 2, 1), decoding(9, 3, 2)},
                              {.rows = 64, .prefill_budget = 16});
  EXPECT_EQ(decisions,
            (std::vector<Decision>{
                {0, 16, 0, true, false}, {1, 1, 0, true, false}, {2, 1, 0, true, false}}));
}

TEST(Planner, BudgetCountsPromptRowsInFlight) {
  SequenceProgress flying = waiting(100, 100, 4, 0);
  flying.rows = 12;
  flying.iterations = 2;
  const auto decisions = plan({flying, waiting(50, 50, 4, 1)}, {.rows = 64, .prefill_budget = 16});
  EXPECT_EQ(decisions, (std::vector<Decision>{{1, 4, 0, true, false}, {0, 12, 2, false, false}}));
}

TEST(Planner, RowsLimitHoldsForEveryone) {
  const auto decisions = plan({decoding(3, 2, 5), decoding(3, 2, 4), decoding(3, 2, 3)},
                              {.rows = 2, .prefill_budget = 2});
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_EQ(decisions[0].sequence, 2);  // the longest wait first
  EXPECT_EQ(decisions[1].sequence, 1);
}

TEST(Planner, DifferentDepthsShareAPass) {
  SequenceProgress shallow = decoding(4, 2, 0), deep = decoding(9, 5, 1);
  shallow.rows = deep.rows = 1;
  shallow.iterations = 1;
  deep.iterations = 3;
  const auto decisions = plan({shallow, deep}, {.rows = 8, .prefill_budget = 8});
  EXPECT_EQ(decisions, (std::vector<Decision>{{0, 1, 1, false, true}, {1, 1, 3, false, false}}));
}

TEST(Planner, DoneRowsWaitForCompanyAtMostHoldPasses) {
  const PlannerLimits limits{.rows = 8, .prefill_budget = 8, .hold_passes = 2};
  std::vector<SequenceProgress> sequences{decoding(4, 1, 0), decoding(9, 8, 1)};
  for (int pass = 0; pass < 3; ++pass) {
    const auto decisions = plan(sequences, limits);
    ASSERT_EQ(decisions.size(), 2u);
    for (const Decision& d : decisions) {
      if (d.sequence == 0) {
        EXPECT_EQ(d.leaves, pass == 2) << pass;
        EXPECT_EQ(d.iteration, pass == 0 ? 0 : kHeld) << pass;
      }
      auto& s = sequences[size_t(d.sequence)];
      s = advance(s, d, 10);
    }
  }
  EXPECT_EQ(sequences[0].done, 5);
  EXPECT_EQ(sequences[0].rows, 0);
}

TEST(Planner, NobodyIsHeldWhenAllAreDone) {
  const auto decisions = plan({decoding(4, 1, 0), decoding(9, 1, 1)},
                              {.rows = 8, .prefill_budget = 8, .hold_passes = 9});
  for (const Decision& d : decisions) EXPECT_TRUE(d.leaves);
}

// Random populations run to the end: limits hold at every pass, every position is computed exactly
// once, in order, with its depth's iterations in order, and everyone finishes.
TEST(Planner, EveryPositionRunsEachIterationOnceInOrder) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto pick = [&](int32_t low, int32_t high) {
      return std::uniform_int_distribution<int32_t>(low, high)(random);
    };
    const PlannerLimits limits{
        .rows = pick(1, 40), .prefill_budget = pick(1, 40), .hold_passes = pick(0, 4)};
    std::vector<SequenceProgress> sequences;
    std::vector<int32_t> goal;
    for (int32_t i = 0, n = pick(1, 12); i < n; ++i) {
      const int32_t prompt = pick(1, 100);
      sequences.push_back(waiting(prompt, prompt, pick(1, 8), uint64_t(i)));
      goal.push_back(prompt + pick(0, 5));
    }
    uint64_t now = 100;
    int passes = 0;
    for (;; ++passes) {
      const auto decisions = plan(sequences, limits);
      if (decisions.empty()) break;
      ASSERT_LT(passes, 20000);
      int32_t rows = 0;
      for (const Decision& d : decisions) {
        auto& s = sequences[size_t(d.sequence)];
        rows += d.rows;
        ASSERT_EQ(d.enters, s.rows == 0);
        if (!d.enters) {
          ASSERT_EQ(d.rows, s.rows);
        }
        ASSERT_EQ(d.iteration, s.iterations == s.depth ? kHeld : s.iterations);
        ASSERT_LE(s.held, limits.hold_passes);
        const SequenceProgress before = s;
        s = advance(s, d, ++now);
        if (d.leaves) {
          ASSERT_EQ(s.done, before.done + d.rows);
          if (s.done == s.ready && s.ready < goal[size_t(d.sequence)]) ++s.ready;
        }
      }
      ASSERT_LE(rows, limits.rows);
    }
    for (size_t i = 0; i < sequences.size(); ++i) EXPECT_EQ(sequences[i].done, goal[i]);
  }
}

TEST(StepPlan, PrintsAndParsesBack) {
  StepPlan plan;
  plan.pass = 41;
  plan.chunks.push_back({.sequence = 7,
                         .rows = 2,
                         .first_position = 30,
                         .depth = 4,
                         .iteration = kHeld,
                         .window = 16,
                         .enters = false,
                         .leaves = true,
                         .logit_rows = 1,
                         .pages = 2});
  plan.tokens = {5, 6};
  plan.slots = {0, 3};
  plan.prelude_pages = {-1, 9};
  plan.loop_pages = {-1, 12};
  const auto parsed = parse_plan(print_plan(plan));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, plan);
}

TEST(StepPlan, RefusesWhatIsNoPlan) {
  EXPECT_EQ(parse_plan("{\"pass\": 1}").error().code, errc::invalid_argument);
  EXPECT_EQ(parse_plan("pass 1").error().code, errc::invalid_argument);
}

}  // namespace
}  // namespace tinyloop::engine
