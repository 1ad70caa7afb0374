#include "engine/planner.h"

#include <algorithm>
#include <utility>

#include "engine/rank.h"
#include "engine/step_plan.h"

namespace tinyloop::engine {

namespace {

// Under the policy `latency`, what prompt rows may add to the time of a pass of rows that decode.
// The interval between two tokens grows by several times as much: the model of costs leaves out
// attention, which grows with the prompt, and the host's own work on it.
constexpr double kLatencyStretch = 0.1;

// Rows that are already under way, and so taken from the limits.
struct Occupied {
  int32_t rows = 0;
  int32_t prompt_rows = 0;
};

int32_t prompt_rows(const SequenceProgress& s, int32_t rows) {
  return std::clamp(s.prompt - s.done, 0, rows);
}

Occupied occupied(std::span<const SequenceProgress> sequences) {
  Occupied sum;
  for (const SequenceProgress& s : sequences) {
    sum.rows += s.rows;
    sum.prompt_rows += prompt_rows(s, s.rows);
  }
  return sum;
}

// Prompt rows that may be in flight at once.
int32_t prefill_budget(std::span<const SequenceProgress> sequences, const PlannerPolicy& policy) {
  if (policy.schedule != Schedule::latency) return policy.prefill_budget;
  int32_t decoding = 0;
  bool one_enters = false;
  for (const SequenceProgress& s : sequences) {
    if (s.done < s.prompt) continue;
    decoding += s.in_flight() || s.wants_entry();
    one_enters |= s.wants_entry();
  }
  if (decoding == 0) return policy.prefill_budget;
  // Together with a row that decodes: of one depth, they leave together, too, and the replica stops
  // for both at once.
  if (!one_enters) return 0;
  const double room = kLatencyStretch * policy.cost.block.of(decoding);
  const double rows = room / policy.cost.block.per_row;
  return rows < policy.prefill_budget ? std::max(1, int32_t(rows)) : policy.prefill_budget;
}

void enter(std::span<const SequenceProgress> sequences, const PlannerPolicy& policy,
           std::vector<int32_t>& entrance, std::vector<Decision>& decisions) {
  entrance.clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].wants_entry()) entrance.push_back(int32_t(i));
  }
  std::sort(entrance.begin(), entrance.end(), [&](int32_t a, int32_t b) {
    const SequenceProgress &x = sequences[size_t(a)], &y = sequences[size_t(b)];
    return std::pair(rank(x.ready_since, x.priority), x.ready_since) <
           std::pair(rank(y.ready_since, y.priority), y.ready_since);
  });
  Occupied used = occupied(sequences);
  const int32_t budget = prefill_budget(sequences, policy);
  for (const int32_t index : entrance) {
    const SequenceProgress& s = sequences[size_t(index)];
    const int32_t end = s.restores() ? std::min(s.ready, s.restored) : s.ready;
    int32_t rows = std::min(end - s.done, policy.rows - used.rows);
    if (s.done < s.prompt) rows = std::min(rows, budget - used.prompt_rows);
    if (rows <= 0) continue;
    used.rows += rows;
    used.prompt_rows += prompt_rows(s, rows);
    const bool iterates = s.first_iteration() < s.last_iteration();
    decisions.push_back(
        {index, rows, iterates ? s.first_iteration() : ChunkStep::kHeld, true, false});
  }
}

void iterate(std::span<const SequenceProgress> sequences, std::vector<Decision>& decisions) {
  for (size_t i = 0; i < sequences.size(); ++i) {
    const SequenceProgress& s = sequences[i];
    if (!s.in_flight()) continue;
    const bool done = s.iterations == s.last_iteration();
    decisions.push_back({int32_t(i), s.rows, done ? ChunkStep::kHeld : s.iterations, false, false});
  }
}

// Of a cycle that begins with these decisions.
int32_t cycle_length(std::span<const SequenceProgress> sequences, const PlannerPolicy& policy,
                     int32_t present, const std::vector<Decision>& decisions) {
  if (policy.schedule == Schedule::latency) return 1;
  if (policy.schedule == Schedule::fixed) return policy.hold_passes + 1;
  RowsByDepth rows;
  for (const Decision& d : decisions) {
    // A slice of a prompt counts as one row: what waits while it is held is one sequence.
    const SequenceProgress& s = sequences[size_t(d.sequence)];
    rows.add(s.last_iteration() - s.first_iteration(), 1);
  }
  return best_cycle(rows, policy.hold_passes + 1, policy.cost, present);
}

// Whether anybody that is done leaves: at the end of the cycle, or when nobody is left to wait for.
bool leave(std::span<const SequenceProgress> sequences, bool cycle_ends,
           std::vector<Decision>& decisions) {
  const auto done = [&](const Decision& d) {
    return d.iteration == ChunkStep::kHeld ||
           d.iteration + 1 == sequences[size_t(d.sequence)].last_iteration();
  };
  if (!cycle_ends && !std::all_of(decisions.begin(), decisions.end(), done)) return false;
  for (Decision& d : decisions) d.leaves = done(d);
  return true;
}

}  // namespace

Cycle decide(std::span<const SequenceProgress> sequences, const PlannerPolicy& policy, Cycle cycle,
             std::vector<int32_t>& entrance, std::vector<Decision>& decisions) {
  decisions.clear();
  const bool idle =
      std::none_of(sequences.begin(), sequences.end(), [](const auto& s) { return s.in_flight(); });
  if (idle) cycle.passes = 0;  // nobody is in the midst of one
  if (cycle.passes == 0) enter(sequences, policy, entrance, decisions);
  iterate(sequences, decisions);
  if (cycle.passes == 0) cycle.length = cycle_length(sequences, policy, cycle.length, decisions);
  ++cycle.passes;
  if (leave(sequences, cycle.passes >= cycle.length, decisions)) cycle.passes = 0;
  return cycle;
}

int32_t entering_prompt_rows(const SequenceProgress& before, const Decision& decision) {
  return decision.enters && !before.restores() ? prompt_rows(before, decision.rows) : 0;
}

SequenceProgress advance(SequenceProgress before, const Decision& decision, uint64_t now) {
  SequenceProgress after = before;
  after.rows = decision.rows;
  if (decision.enters) after.iterations = before.first_iteration();
  if (decision.iteration != ChunkStep::kHeld) after.iterations = decision.iteration + 1;
  if (after.iterations == before.last_iteration()) ++after.held;
  if (decision.leaves) {
    after.done += decision.rows;
    after.rows = after.iterations = after.held = 0;
    after.ready_since = now;
  }
  return after;
}

}  // namespace tinyloop::engine
