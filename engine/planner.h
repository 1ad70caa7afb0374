// Decides a pass: which rows enter, which iterate, which leave. A pure function of the sequences'
// progress; it touches no memory but its own arguments and can be replayed and printed.
//
// Rules
//  · Rows in flight always take part: every chunk runs its next iteration, until its depth is done.
//  · Passes come in cycles (engine/cycle.h). Waiting sequences enter in the first pass of a cycle,
//    in the order in which they became ready, moved by their priority (engine/rank.h), each with as
//    many rows as it has ready and the limits allow: a decoding sequence one row, a prompt a slice
//    of it. So nobody starves: whoever waits long enough is served first.
//  · Chunks whose depth is done leave in the last pass of a cycle: prelude, coda and head then read
//    their weights once for many rows. A cycle has at most hold_passes + 1 passes, so neither a row
//    that is done nor one that is ready waits for company longer than hold_passes passes.
//  · The policy `throughput` chooses the length of a cycle by the cost of passes, `fixed` does not
//    choose.
//  · The policy `latency` lets nobody wait for company, and cuts prompts into slices that do not
//    hold up the rows that decode.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cycle.h"
#include "tinyloop/options.h"

namespace tinyloop::engine {

// Where a sequence stands between two passes.
struct SequenceProgress {
  int32_t ready = 0;   // positions whose token is known and has to be computed
  int32_t done = 0;    // positions computed at every layer
  int32_t prompt = 0;  // of `ready`, how many are prompt
  int32_t depth = 1;
  // Positions before `restored` do not begin with their tokens, but where a cached prefix has left
  // them, and have a depth of their own.
  int32_t restored = 0;
  int32_t restored_from = 0;  // iterations behind them already
  int32_t restored_depth = 0;
  int32_t rows = 0;          // in flight: positions [done, done + rows)
  int32_t iterations = 0;    // that the rows in flight have completed
  int32_t held = 0;          // passes they have waited since
  uint64_t ready_since = 0;  // order of arrival at the entrance; unique
  int32_t priority = 0;

  bool in_flight() const { return rows > 0; }
  bool wants_entry() const { return rows == 0 && done < ready; }
  // Of the rows in flight, or of the next ones to enter.
  bool restores() const { return done < restored; }
  int32_t first_iteration() const { return restores() ? restored_from : 0; }
  int32_t last_iteration() const { return restores() ? restored_depth : depth; }
};

// What bounds a pass, and what it is to be good at.
struct PlannerPolicy {
  int32_t rows = 1;            // in flight at once: the narrower of scratch and residual buffer
  int32_t prefill_budget = 1;  // of which may be prompt rows
  int32_t hold_passes = 0;
  Schedule schedule = Schedule::throughput;
  PassCost cost{};
};

// What one sequence does in the pass. Sequences that do nothing are not listed.
struct Decision {
  int32_t sequence = 0;  // index into the span given to decide()
  int32_t rows = 0;
  int32_t iteration = 0;  // as in ChunkStep
  bool enters = false;
  bool leaves = false;

  bool operator==(const Decision&) const = default;
};

// Entering chunks come first, then the others in the order given. `decisions` is cleared and
// filled; `entrance` is work space (kept by the caller so that a steady state allocates nothing).
// Returns where the cycle stands once the decisions have been carried out; `cycle` is what the call
// for the pass before has returned.
Cycle decide(std::span<const SequenceProgress> sequences, const PlannerPolicy& policy, Cycle cycle,
             std::vector<int32_t>& entrance, std::vector<Decision>& decisions);

// How many rows enter as prompt when a sequence that stands at `before` does what was decided.
int32_t entering_prompt_rows(const SequenceProgress& before, const Decision& decision);

// The progress of a sequence after it has done what was decided. `now` orders it at the entrance.
SequenceProgress advance(SequenceProgress before, const Decision& decision, uint64_t now);

}  // namespace tinyloop::engine
