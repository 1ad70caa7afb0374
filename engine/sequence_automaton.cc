#include "engine/sequence_automaton.h"

#include <algorithm>
#include <numeric>

namespace tinyloop::engine {

namespace {

uint64_t edge_key(int32_t state, int32_t symbol) {
  return uint64_t{static_cast<uint32_t>(state)} << 32 | static_cast<uint32_t>(symbol);
}

}  // namespace

SequenceAutomaton::SequenceAutomaton(const std::vector<std::vector<int32_t>>& patterns)
    : nodes_(1) {
  for (const auto& pattern : patterns) add(pattern);
  link_fallbacks();
}

void SequenceAutomaton::add(std::span<const int32_t> pattern) {
  State state = kStart;
  for (const int32_t symbol : pattern) {
    const auto fresh = static_cast<State>(nodes_.size());
    const auto [edge, is_new] = edges_.emplace(edge_key(state, symbol), fresh);
    if (is_new) nodes_.push_back({state, symbol, kStart, node(state).depth + 1, 0});
    state = edge->second;
  }
  nodes_[static_cast<size_t>(state)].match_length = pattern.size();
  longest_pattern_ = std::max(longest_pattern_, pattern.size());
}

// Shallow nodes first: a fallback is always shallower than its node.
void SequenceAutomaton::link_fallbacks() {
  std::vector<State> order(nodes_.size());
  std::iota(order.begin(), order.end(), kStart);
  std::stable_sort(order.begin(), order.end(),
                   [this](State a, State b) { return node(a).depth < node(b).depth; });
  for (const State state : order) {
    Node& current = nodes_[static_cast<size_t>(state)];
    if (current.depth > 1) {
      current.fallback = next(node(current.parent).fallback, current.symbol);
    }
    if (current.match_length == 0) current.match_length = node(current.fallback).match_length;
  }
}

SequenceAutomaton::State SequenceAutomaton::next(State state, int32_t symbol) const {
  for (;; state = node(state).fallback) {
    const auto edge = edges_.find(edge_key(state, symbol));
    if (edge != edges_.end()) return edge->second;
    if (state == kStart) return kStart;
  }
}

}  // namespace tinyloop::engine
