// A set of token sequences as a compressed radix tree: follows a prompt as far as any of them goes.
//
// A node stands for a beginning that is a sequence of the set, or that several of them share before
// they part. Each node names the most recently used sequence at or below it, and that sequence's
// own tokens are the text of the edge that leads to the node: splitting an edge and joining two
// copies no token, and erasing allocates nothing. In return every sequence keeps all its tokens.
//
// Cost, with n tokens given and c children at a node
//  · follow: compares each token at most once and looks up a child at most once a token, O(log c),
//    no matter how many sequences there are.
//  · insert: that, and a copy of the tokens.
//  · touch: one step for every node on the way to the root, n at most.
//  · erase: that, and for every node there whose most recently used sequence is the erased one, a
//    look at each child. The least recently used of the set is that only to nodes with nothing else
//    at or below them, so erasing the oldest never looks aside.
// Nothing recurses, however deep the tree is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace tinyloop::engine {

class TokenTree {
 public:
  // A node. A sequence keeps its place until it is erased.
  using Place = int32_t;
  static constexpr Place kNowhere = -1;

  struct Walk {
    int32_t length = 0;      // of the longest beginning that any sequence shares with the tokens
    Place at = kRoot;        // the highest node at or below which all those lie that share it
    Place whole = kNowhere;  // the longest sequence that is, whole, a beginning of the tokens
    int32_t lookups = 0;     // of a child: the cost beside the comparisons
  };

  TokenTree() : nodes_(1) {}

  // Allocates nothing.
  Walk follow(std::span<const int32_t> tokens) const;
  // kNowhere: not in the set.
  Place find(std::span<const int32_t> tokens) const;

  // A new sequence, the most recently used; `id` is what id() answers for it. It is not empty and
  // not in the set. If memory runs out, nothing has changed.
  Place insert(std::span<const int32_t> tokens, int32_t id);
  void touch(Place sequence) noexcept;  // makes it the most recently used
  void erase(Place sequence) noexcept;

  // The most recently used sequence at or below a node; kNowhere: the set is empty.
  Place latest(Place place) const { return node(place).latest; }
  int32_t id(Place sequence) const { return node(sequence).id; }
  int32_t length(Place place) const { return node(place).depth; }

  bool empty() const { return node_count_ == 0; }
  size_t node_count() const { return node_count_; }  // beside the root

 private:
  static constexpr Place kRoot = 0;

  struct Node {
    Place parent = kNowhere;  // of a free node: the next free one
    int32_t depth = 0;        // tokens from the root to here
    Place latest = kNowhere;
    std::map<int32_t, Place> children;  // by their edge's first token
    // Of the sequence that ends here; without tokens: none does.
    std::vector<int32_t> tokens;
    int32_t id = 0;
    uint64_t used = 0;
  };

  Node& node(Place place) { return nodes_[static_cast<size_t>(place)]; }
  const Node& node(Place place) const { return nodes_[static_cast<size_t>(place)]; }
  bool is_sequence(Place place) const { return !node(place).tokens.empty(); }
  // The token with that index on the way to a node; index < its depth.
  int32_t token(Place place, int32_t index) const;

  Place reserve_node();
  void take(Place reserved) noexcept;
  void give_back(Place place) noexcept;
  Place split(Place lower, int32_t depth);
  Place add_leaf(Place parent, std::span<const int32_t> tokens);
  Place join_if_needless(Place place) noexcept;
  Place most_recent(Place place) const noexcept;

  std::vector<Node> nodes_;
  Place free_ = kNowhere;
  size_t node_count_ = 0;
  uint64_t clock_ = 0;  // counts uses
};

}  // namespace tinyloop::engine
