// Looks for many sequences at once in a stream of symbols: one state, one step a symbol.
// Source: Aho, Corasick, "Efficient string matching: an aid to bibliographic search", CACM 18(6),
// 1975.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tinyloop::engine {

class SequenceAutomaton {
 public:
  using State = int32_t;
  static constexpr State kStart = 0;

  // No pattern is empty. At most 2^31 - 1 symbols together.
  explicit SequenceAutomaton(const std::vector<std::vector<int32_t>>& patterns);

  // The state after one more symbol. O(1) amortised over a stream; allocates nothing.
  State next(State state, int32_t symbol) const;

  // How many of the last symbols form the longest beginning of a pattern (the whole included).
  size_t depth(State state) const { return node(state).depth; }

  // Length of the longest pattern that ends with the last symbol; 0: none does.
  size_t match_length(State state) const { return node(state).match_length; }

  size_t longest_pattern() const { return longest_pattern_; }

 private:
  struct Node {
    State parent = kStart;
    int32_t symbol = 0;       // on the edge from the parent
    State fallback = kStart;  // the longest proper suffix that begins a pattern
    size_t depth = 0;
    size_t match_length = 0;
  };

  const Node& node(State state) const { return nodes_[static_cast<size_t>(state)]; }
  void add(std::span<const int32_t> pattern);
  void link_fallbacks();

  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, State> edges_;  // by (state, symbol)
  size_t longest_pattern_ = 0;
};

}  // namespace tinyloop::engine
