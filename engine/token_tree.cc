#include "engine/token_tree.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace tinyloop::engine {

TokenTree::Walk TokenTree::follow(std::span<const int32_t> tokens) const {
  const auto size = static_cast<int32_t>(tokens.size());
  Walk walk;
  while (walk.length == node(walk.at).depth && walk.length < size) {
    ++walk.lookups;
    const auto& children = node(walk.at).children;
    const auto child = children.find(tokens[static_cast<size_t>(walk.length)]);
    if (child == children.end()) break;
    walk.at = child->second;
    const auto& edge = node(latest(walk.at)).tokens;
    const auto first = tokens.begin() + walk.length + 1;  // the look-up has compared one
    const auto last = tokens.begin() + std::min(size, node(walk.at).depth);
    const auto parts = std::mismatch(first, last, edge.begin() + walk.length + 1).first;
    walk.length = static_cast<int32_t>(parts - tokens.begin());
    if (walk.length == node(walk.at).depth && is_sequence(walk.at)) walk.whole = walk.at;
  }
  return walk;
}

TokenTree::Place TokenTree::find(std::span<const int32_t> tokens) const {
  const Walk walk = follow(tokens);
  const bool found = walk.whole != kNowhere && length(walk.whole) == int32_t(tokens.size());
  return found ? walk.whole : kNowhere;
}

TokenTree::Place TokenTree::insert(std::span<const int32_t> tokens, int32_t id) {
  const Walk walk = follow(tokens);
  std::vector<int32_t> own(tokens.begin(), tokens.end());
  Place end = walk.at;
  if (walk.length < node(end).depth) end = split(end, walk.length);
  if (walk.length < static_cast<int32_t>(tokens.size())) {
    try {
      end = add_leaf(end, tokens);
    } catch (...) {
      join_if_needless(end);  // undoes the split
      throw;
    }
  }
  TINYLOOP_CHECK(end != kRoot && !is_sequence(end));
  node(end).tokens = std::move(own);
  node(end).id = id;
  touch(end);
  return end;
}

void TokenTree::touch(Place sequence) noexcept {
  node(sequence).used = ++clock_;
  for (Place at = sequence; at != kNowhere; at = node(at).parent) node(at).latest = sequence;
}

void TokenTree::erase(Place sequence) noexcept {
  Place remains = sequence;
  const auto tokens = std::exchange(node(sequence).tokens, {});
  if (node(sequence).children.empty()) {
    remains = node(sequence).parent;
    node(remains).children.erase(tokens[static_cast<size_t>(node(remains).depth)]);
    give_back(sequence);
  }
  remains = join_if_needless(remains);
  for (Place at = remains; at != kNowhere && latest(at) == sequence; at = node(at).parent) {
    node(at).latest = most_recent(at);
  }
}

int32_t TokenTree::token(Place place, int32_t index) const {
  return node(latest(place)).tokens[static_cast<size_t>(index)];
}

// A free node to fill in. It stays free until take(), so that what throws in between loses nothing.
TokenTree::Place TokenTree::reserve_node() {
  static_assert(std::is_nothrow_move_constructible_v<Node>, "the pool grows or stays as it is");
  if (free_ == kNowhere) {
    nodes_.emplace_back();
    free_ = static_cast<Place>(nodes_.size() - 1);
  }
  return free_;
}

void TokenTree::take(Place reserved) noexcept {
  free_ = std::exchange(node(reserved).parent, kNowhere);
  ++node_count_;
}

void TokenTree::give_back(Place place) noexcept {
  node(place) = {};
  node(place).parent = std::exchange(free_, place);
  --node_count_;
}

// A new node on the edge that leads to `lower`.
TokenTree::Place TokenTree::split(Place lower, int32_t depth) {
  const Place upper = reserve_node();
  node(upper).children.emplace(token(lower, depth), lower);
  take(upper);
  const Place parent = node(lower).parent;
  node(parent).children.find(token(lower, node(parent).depth))->second = upper;
  node(upper).parent = parent;
  node(upper).depth = depth;
  node(upper).latest = latest(lower);
  node(lower).parent = upper;
  return upper;
}

TokenTree::Place TokenTree::add_leaf(Place parent, std::span<const int32_t> tokens) {
  const Place leaf = reserve_node();
  node(parent).children.emplace(tokens[static_cast<size_t>(node(parent).depth)], leaf);
  take(leaf);
  node(leaf).parent = parent;
  node(leaf).depth = static_cast<int32_t>(tokens.size());
  return leaf;
}

// A node where nothing ends and nothing parts is taken out of its edge. Returns the node that
// stands in its place above the rest: itself or its parent.
TokenTree::Place TokenTree::join_if_needless(Place place) noexcept {
  if (place == kRoot || is_sequence(place) || node(place).children.size() != 1) return place;
  const Place parent = node(place).parent, child = node(place).children.begin()->second;
  // By the child: the sequence that named this node's edge may be the one being erased.
  node(parent).children.find(token(child, node(parent).depth))->second = child;
  node(child).parent = parent;
  give_back(place);
  return parent;
}

TokenTree::Place TokenTree::most_recent(Place place) const noexcept {
  Place best = is_sequence(place) ? place : kNowhere;
  for (const auto& [token, child] : node(place).children) {
    const Place other = latest(child);
    if (best == kNowhere || node(other).used > node(best).used) best = other;
  }
  return best;
}

}  // namespace tinyloop::engine
