#include "bench/schedule/prediction.h"

#include <random>
#include <vector>

namespace tinyloop::bench {

namespace {

constexpr int64_t kTokens = 40'000;  // to be counted, after a quarter as many
constexpr uint32_t kSeed = 5;

// What the decided pass takes.
double time_of(const std::vector<engine::Decision>& decisions, const engine::PassCost& cost) {
  double running = 0, entering = 0, leaving = 0;
  for (const engine::Decision& d : decisions) {
    if (d.iteration >= 0) running += d.rows;
    if (d.enters) entering += d.rows;
    if (d.leaves) leaving += d.rows;
  }
  return cost.prelude.of(entering) + cost.block.of(running) + cost.coda.of(leaving);
}

}  // namespace

double predicted_tokens_per_s(const engine::PlannerPolicy& policy, int32_t rows, int32_t tokens,
                              int32_t shallowest, int32_t deepest) {
  std::mt19937 random(kSeed);
  std::uniform_int_distribution<int32_t> depth(shallowest, deepest), begun(0, tokens - 1);
  std::vector<engine::SequenceProgress> sequences;
  for (int32_t i = 0; i < rows; ++i) {
    sequences.push_back({.ready = 1, .depth = depth(random), .ready_since = uint64_t(i)});
  }
  std::vector<int32_t> left;  // tokens until the next depth
  for (int32_t i = 0; i < rows; ++i) left.push_back(1 + begun(random));
  std::vector<int32_t> entrance;
  std::vector<engine::Decision> decisions;
  engine::Cycle cycle;
  double seconds = 0;
  int64_t counted = -kTokens / 4;
  for (uint64_t now = uint64_t(rows); counted < kTokens; ++now) {
    cycle = engine::decide(sequences, policy, cycle, entrance, decisions);
    if (counted >= 0) seconds += time_of(decisions, policy.cost);
    for (const engine::Decision& d : decisions) {
      auto& s = sequences[size_t(d.sequence)];
      s = engine::advance(s, d, now);
      if (!d.leaves) continue;
      ++s.ready;
      ++counted;
      if (--left[size_t(d.sequence)] > 0) continue;
      left[size_t(d.sequence)] = tokens;
      s.depth = depth(random);
    }
  }
  return double(kTokens) / seconds;
}

}  // namespace tinyloop::bench
