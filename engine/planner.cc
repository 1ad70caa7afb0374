#include "engine/planner.h"

#include <algorithm>

#include "engine/step_plan.h"

namespace tinyloop::engine {

namespace {

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

void enter(std::span<const SequenceProgress> sequences, const PlannerLimits& limits,
           std::vector<int32_t>& entrance, std::vector<Decision>& decisions) {
  entrance.clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].wants_entry()) entrance.push_back(int32_t(i));
  }
  std::sort(entrance.begin(), entrance.end(), [&](int32_t a, int32_t b) {
    return sequences[size_t(a)].ready_since < sequences[size_t(b)].ready_since;
  });
  Occupied used = occupied(sequences);
  for (const int32_t index : entrance) {
    const SequenceProgress& s = sequences[size_t(index)];
    const int32_t end = s.restores() ? std::min(s.ready, s.restored) : s.ready;
    int32_t rows = std::min(end - s.done, limits.rows - used.rows);
    if (s.done < s.prompt) rows = std::min(rows, limits.prefill_budget - used.prompt_rows);
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

void leave(std::span<const SequenceProgress> sequences, const PlannerLimits& limits,
           std::vector<Decision>& decisions) {
  const auto done = [&](const Decision& d) {
    return d.iteration == ChunkStep::kHeld ||
           d.iteration + 1 == sequences[size_t(d.sequence)].last_iteration();
  };
  const bool overdue = std::any_of(decisions.begin(), decisions.end(), [&](const Decision& d) {
    return done(d) && sequences[size_t(d.sequence)].held >= limits.hold_passes;
  });
  if (!overdue && !std::all_of(decisions.begin(), decisions.end(), done)) return;
  for (Decision& d : decisions) d.leaves = done(d);
}

}  // namespace

void decide(std::span<const SequenceProgress> sequences, const PlannerLimits& limits,
            std::vector<int32_t>& entrance, std::vector<Decision>& decisions) {
  decisions.clear();
  enter(sequences, limits, entrance, decisions);
  iterate(sequences, decisions);
  leave(sequences, limits, decisions);
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
