// What all simulations of a run have met: so that it is seen what they cover.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "stress/sim/op.h"

namespace tinyloop::sim {

struct Tally {
  uint64_t seeds = 0, steps = 0, turns = 0, nested = 0, passes = 0;
  uint64_t preemptions = 0;  // at least
  uint64_t several = 0;      // models of several replicas
  uint64_t cancels = 0, rests = 0;
  uint64_t refused = 0, host_refused = 0, broken = 0, spoiled = 0, slow = 0;
  // By kind and by what it came to: a FinishReason's name, or a condition's.
  std::array<std::map<std::string, uint64_t>, kOpKinds> outcomes;

  void count(OpKind kind, const std::string& outcome) { ++outcomes[size_t(kind)][outcome]; }
  void print() const;
  // Prints what should have occurred and has not; true if there is nothing of the kind.
  bool is_complete() const;
};

}  // namespace tinyloop::sim
