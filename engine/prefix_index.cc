#include "engine/prefix_index.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace tinyloop::engine {

PrefixIndex::PrefixIndex(PrefixLimits limits) : limits_(limits) {
  TINYLOOP_CHECK(limits.entries >= 1);
}

std::optional<PrefixIndex::Match> PrefixIndex::find(std::span<const int32_t> prompt,
                                                    PrefixKey key) const {
  const auto tree = trees_.find(key);
  if (tree == trees_.end()) return std::nullopt;
  const TokenTree& prefixes = tree->second;
  const TokenTree::Walk walk = prefixes.follow(prompt);
  if (walk.length == 0) return std::nullopt;
  const bool some_whole = walk.whole != TokenTree::kNowhere;
  const int32_t whole_length = some_whole ? prefixes.length(walk.whole) : 0;
  if (key.window == 0 && walk.length > whole_length) {
    return Match{prefixes.id(prefixes.latest(walk.at)), walk.length, false};
  }
  if (!some_whole) return std::nullopt;
  return Match{prefixes.id(walk.whole), whole_length, true};
}

std::optional<PrefixIndex::Match> PrefixIndex::find_at_other_loops(std::span<const int32_t> prompt,
                                                                   PrefixKey key) const {
  std::optional<Match> best;
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
  auto tree = trees_.lower_bound({.loops = kLowest, .window = key.window});
  for (; tree != trees_.end() && tree->first.window == key.window; ++tree) {
    if (tree->first.loops == key.loops) continue;
    const TokenTree::Place whole = tree->second.follow(prompt).whole;
    if (whole == TokenTree::kNowhere) continue;
    const int32_t length = tree->second.length(whole);
    if (!best || length > best->length) best = Match{tree->second.id(whole), length, true};
  }
  return best;
}

std::optional<int32_t> PrefixIndex::exact(std::span<const int32_t> tokens, PrefixKey key) const {
  const auto tree = trees_.find(key);
  if (tree == trees_.end()) return std::nullopt;
  const TokenTree::Place place = tree->second.find(tokens);
  if (place == TokenTree::kNowhere) return std::nullopt;
  return tree->second.id(place);
}

PrefixIndex::Inserted PrefixIndex::insert(std::span<const int32_t> tokens, PrefixKey key,
                                          size_t bytes) {
  TINYLOOP_CHECK(!tokens.empty() && key.window >= 0 && could_fit(bytes));
  Inserted inserted{.evicted = victims(bytes)};
  const int32_t id = inserted.id = smallest_free_id(inserted.evicted);
  entries_.resize(std::max(entries_.size(), static_cast<size_t>(id)));
  std::list<int32_t> youngest(1, id);
  const TokenTree::Place place = insert_into_tree(tokens, key, id);
  // Nothing below throws.
  for (const int32_t victim : inserted.evicted) remove(victim);
  by_age_.splice(by_age_.end(), youngest);
  bytes_ += bytes;
  entry(id) = {.info = {.length = int32_t(tokens.size()), .key = key, .bytes = bytes},
               .place = place,
               .age = std::prev(by_age_.end())};
  return inserted;
}

void PrefixIndex::touch(int32_t id) {
  TINYLOOP_CHECK(live(id));
  Entry& used = entry(id);
  ++used.info.hits;
  by_age_.splice(by_age_.end(), by_age_, used.age);
  trees_.find(used.info.key)->second.touch(used.place);
}

void PrefixIndex::erase(int32_t id) {
  TINYLOOP_CHECK(live(id));
  remove(id);
}

std::optional<PrefixIndex::Info> PrefixIndex::info(int32_t id) const {
  if (!live(id)) return std::nullopt;
  return entry(id).info;
}

size_t PrefixIndex::node_count() const {
  size_t count = 0;
  for (const auto& [key, tree] : trees_) count += tree.node_count();
  return count;
}

bool PrefixIndex::live(int32_t id) const {
  return id >= 1 && static_cast<size_t>(id) <= entries_.size() && entry(id).live();
}

// Who goes to make room for one more prefix.
std::vector<int32_t> PrefixIndex::victims(size_t bytes) const {
  std::vector<int32_t> victims;
  size_t held = bytes_;
  for (const int32_t id : by_age_) {
    const bool room = size() - victims.size() < limits_.entries;
    if (room && (limits_.bytes == 0 || held <= limits_.bytes - bytes)) break;
    victims.push_back(id);
    held -= entry(id).info.bytes;
  }
  return victims;
}

int32_t PrefixIndex::smallest_free_id(std::span<const int32_t> also_free) const {
  const auto is_free = [](const Entry& entry) { return !entry.live(); };
  const auto place = std::find_if(entries_.begin(), entries_.end(), is_free);
  auto smallest = static_cast<int32_t>(place - entries_.begin()) + 1;
  for (const int32_t id : also_free) smallest = std::min(smallest, id);
  return smallest;
}

TokenTree::Place PrefixIndex::insert_into_tree(std::span<const int32_t> tokens, PrefixKey key,
                                               int32_t id) {
  const auto tree = trees_.try_emplace(key).first;
  try {
    return tree->second.insert(tokens, id);
  } catch (...) {
    drop_if_empty(tree);
    throw;
  }
}

void PrefixIndex::drop_if_empty(Trees::iterator tree) noexcept {
  if (tree->second.empty()) trees_.erase(tree);
}

void PrefixIndex::remove(int32_t id) noexcept {
  Entry& gone = entry(id);
  const auto tree = trees_.find(gone.info.key);
  tree->second.erase(gone.place);
  drop_if_empty(tree);
  by_age_.erase(gone.age);
  bytes_ -= gone.info.bytes;
  gone = {};
}

}  // namespace tinyloop::engine
