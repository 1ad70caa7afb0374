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

// Costs that do not depend on the rows: a pass of the block, and prelude, coda and head together.
PassCost weights_alone(double block, double others) {
  return {
      .prelude = {.fixed = others / 2}, .block = {.fixed = block}, .coda = {.fixed = others / 2}};
}

// Passes one after another.
class Passes {
 public:
  explicit Passes(const PlannerPolicy& policy) : policy_(policy) {}

  std::vector<Decision> next(const std::vector<SequenceProgress>& sequences) {
    std::vector<int32_t> entrance;
    std::vector<Decision> decisions;
    cycle_ = decide(sequences, policy_, cycle_, entrance, decisions);
    return decisions;
  }
  const Cycle& cycle() const { return cycle_; }

 private:
  const PlannerPolicy policy_;
  Cycle cycle_;
};

std::vector<Decision> plan(const std::vector<SequenceProgress>& sequences,
                           const PlannerPolicy& policy) {
  return Passes(policy).next(sequences);
}

TEST(Planner, NothingToDo) {
  EXPECT_TRUE(plan({}, {.rows = 8, .prefill_budget = 8}).empty());
  EXPECT_TRUE(plan({{.ready = 3, .done = 3}}, {.rows = 8, .prefill_budget = 8}).empty());
}

TEST(Planner, AnUrgentPromptEntersFirstUnlessOthersWaitLongEnough) {
  const PlannerPolicy policy{.rows = 8, .prefill_budget = 4};
  std::vector<SequenceProgress> sequences = {waiting(4, 4, 1, 100), waiting(4, 4, 1, 163)};
  EXPECT_EQ(plan(sequences, policy).front().sequence, 0);
  sequences[1].priority = 1;
  EXPECT_EQ(plan(sequences, policy).front().sequence, 1);
  sequences[0].ready_since = 99;  // longer ago than the priority makes good
  EXPECT_EQ(plan(sequences, policy).front().sequence, 0);
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

// Where the other layers weigh more than the block, rows wait, and those that come meanwhile, too.
TEST(Planner, RowsWaitForCompanyAtMostHoldPasses) {
  for (const int32_t hold : {0, 2, 9}) {
    SCOPED_TRACE("hold_passes " + std::to_string(hold));
    Passes passes(
        {.rows = 8, .prefill_budget = 8, .hold_passes = hold, .cost = weights_alone(1, 100)});
    std::vector<SequenceProgress> sequences{decoding(4, 1, 0), decoding(9, 8, 1)};
    const int32_t length = std::min(hold + 1, 8);
    for (int32_t pass = 0; pass < 8; ++pass) {
      if (pass == 1) sequences.push_back(decoding(2, 1, 2));
      const auto decisions = passes.next(sequences);
      const bool first = pass % length == 0;
      // In the eighth pass the deep row is done, and nobody is left to wait for.
      const bool last = pass % length == length - 1 || pass == 7;
      std::vector<bool> took_part(sequences.size());
      for (const Decision& d : decisions) {
        took_part[size_t(d.sequence)] = true;
        auto& s = sequences[size_t(d.sequence)];
        if (d.sequence != 1) {
          EXPECT_EQ(d.enters, first) << pass;
          EXPECT_EQ(d.leaves, last) << pass;
          EXPECT_EQ(d.iteration, first ? 0 : kHeld) << pass;
        }
        s = advance(s, d, uint64_t(10 + pass));
        if (d.leaves && d.sequence != 1) ++s.ready;
      }
      EXPECT_TRUE(took_part[0]);
      if (pass > 0) {
        EXPECT_EQ(took_part[2], pass >= length || length == 1) << pass;
      }
    }
    EXPECT_EQ(sequences[0].done, 4 + (8 + length - 1) / length);
    EXPECT_EQ(sequences[1].done, 10);
  }
}

TEST(Planner, NobodyIsHeldWhenAllAreDone) {
  Passes passes({.rows = 8, .prefill_budget = 8, .hold_passes = 9, .cost = weights_alone(1, 100)});
  std::vector<SequenceProgress> sequences{decoding(4, 2, 0), decoding(9, 9, 1)};
  for (const Decision& d : passes.next(sequences)) {
    sequences[size_t(d.sequence)] = advance(sequences[size_t(d.sequence)], d, 10);
  }
  EXPECT_EQ(passes.cycle(), (Cycle{.length = 9, .passes = 1}));
  sequences.pop_back();  // cancelled
  for (const Decision& d : passes.next(sequences)) EXPECT_TRUE(d.leaves);
  EXPECT_EQ(passes.cycle().passes, 0);
}

// Rows of one depth that came at odd times leave together from then on.
TEST(Planner, RowsOfOneDepthAreDrawnIntoStep) {
  constexpr int32_t kDepth = 8;
  Passes passes(
      {.rows = 64, .prefill_budget = 64, .hold_passes = kDepth - 1, .cost = weights_alone(2, 1)});
  std::vector<SequenceProgress> sequences;
  int32_t left = 0;
  for (int32_t pass = 0; pass < 6 * kDepth; ++pass) {
    if (pass < 20) sequences.push_back(decoding(pass, kDepth, uint64_t(pass)));
    left = 0;
    for (const Decision& d : passes.next(sequences)) {
      auto& s = sequences[size_t(d.sequence)];
      EXPECT_LE(s.held, kDepth - 1);
      s = advance(s, d, uint64_t(100 + pass));
      left += d.leaves;
      if (d.leaves) ++s.ready;
    }
    if (pass >= 4 * kDepth) {
      EXPECT_TRUE(left == 0 || left == 20) << pass;
    }
  }
}

TEST(Planner, LatencyHoldsNobodyAndCutsPromptsWhileOthersDecode) {
  PlannerPolicy policy{.rows = 600,
                       .prefill_budget = 256,
                       .hold_passes = 9,
                       .schedule = Schedule::latency,
                       .cost = weights_alone(1, 100)};
  policy.cost.block.per_row = 0.004;  // a tenth of a pass of one row: 25 more
  Passes passes(policy);
  std::vector<SequenceProgress> sequences{decoding(4, 1, 0), waiting(500, 500, 4, 1)};
  for (int32_t pass = 0; pass < 3; ++pass) {
    for (const Decision& d : passes.next(sequences)) {
      auto& s = sequences[size_t(d.sequence)];
      if (d.sequence == 0) {
        EXPECT_TRUE(d.enters && d.leaves);
      } else {
        EXPECT_EQ(d.rows, 25);
      }
      s = advance(s, d, uint64_t(10 + pass));
      if (d.sequence == 0) ++s.ready;
    }
  }
  EXPECT_EQ(plan({waiting(500, 500, 4, 1)}, policy)[0].rows, 256);
  // Not while all that decode are in the midst of their depth.
  SequenceProgress deep = decoding(4, 8, 0);
  deep.rows = 1;
  deep.iterations = 3;
  EXPECT_EQ(plan({deep, waiting(500, 500, 4, 1)}, policy),
            (std::vector<Decision>{{0, 1, 3, false, false}}));
}

// Random populations run to the end: limits hold at every pass, every position is computed exactly
// once, in order, with its depth's iterations in order, nobody waits for company longer than
// hold_passes, and everyone finishes.
TEST(Planner, EveryPositionRunsEachIterationOnceInOrder) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto pick = [&](int32_t low, int32_t high) {
      return std::uniform_int_distribution<int32_t>(low, high)(random);
    };
    const PlannerPolicy policy{
        .rows = pick(1, 40),
        .prefill_budget = pick(1, 40),
        .hold_passes = pick(0, 9),
        .schedule = pick(0, 3) == 0 ? Schedule::latency : Schedule::throughput,
        .cost = {.prelude = {1e-6 * pick(0, 9), 1e-8 * pick(0, 9)},
                 .block = {1e-6 * pick(1, 9), 1e-8 * pick(1, 9)},
                 .coda = {1e-6 * pick(0, 90), 1e-8 * pick(0, 9)}}};
    Passes passes(policy);
    std::vector<SequenceProgress> sequences;
    std::vector<int32_t> goal;
    for (int32_t i = 0, n = pick(1, 12); i < n; ++i) {
      const int32_t prompt = pick(1, 100);
      sequences.push_back(waiting(prompt, prompt, pick(1, 8), uint64_t(i)));
      goal.push_back(prompt + pick(0, 5));
    }
    uint64_t now = 100;
    int32_t idle = 0;  // passes since somebody last entered or left
    for (int passes_run = 0;; ++passes_run) {
      const auto decisions = passes.next(sequences);
      if (decisions.empty()) break;
      ASSERT_LT(passes_run, 40000);
      int32_t rows = 0;
      ++idle;
      for (const Decision& d : decisions) {
        auto& s = sequences[size_t(d.sequence)];
        rows += d.rows;
        ASSERT_EQ(d.enters, s.rows == 0);
        if (!d.enters) {
          ASSERT_EQ(d.rows, s.rows);
        }
        ASSERT_EQ(d.iteration, s.iterations == s.depth ? kHeld : s.iterations);
        ASSERT_LE(s.held, policy.schedule == Schedule::latency ? 0 : policy.hold_passes);
        const SequenceProgress before = s;
        s = advance(s, d, ++now);
        if (d.enters || d.leaves) idle = 0;
        if (d.leaves) {
          ASSERT_EQ(s.done, before.done + d.rows);
          if (s.done == s.ready && s.ready < goal[size_t(d.sequence)]) ++s.ready;
        }
      }
      ASSERT_LE(rows, policy.rows);
      ASSERT_LE(idle, 8 + policy.hold_passes);
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
