// Which registered prefix serves a prompt, and which have to go when another one comes. Knows
// prefixes by their tokens and by small ids; whoever uses it keeps what belongs to an id. Pure and
// single-threaded.
//
// Cost: find() compares each token of the prompt at most once and looks up a child of the tree at
// most once a token, however many prefixes there are: every node of the tree names the one to use
// at or below it (token_tree.h). find(), exact(), touch() and erase() allocate nothing.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/token_tree.h"

namespace tinyloop::engine {

// What a prefix's cache was computed with: it serves only requests of the same key.
struct PrefixKey {
  int32_t loops = 1;
  int32_t window = 0;  // positions; 0: all

  auto operator<=>(const PrefixKey&) const = default;
};

struct PrefixLimits {
  size_t entries = 1;
  size_t bytes = 0;  // 0: as many as there are
};

class PrefixIndex {
 public:
  struct Match {
    int32_t id = 0;
    int32_t length = 0;  // tokens that the prefix and the prompt begin with in common
    bool whole = false;  // all of the prefix's

    bool operator==(const Match&) const = default;
  };

  struct Inserted {
    int32_t id = 0;
    std::vector<int32_t> evicted;  // in the order of eviction; `id` may be one of them
  };

  struct Info {
    int32_t length = 0;
    PrefixKey key;
    size_t bytes = 0;
    uint64_t hits = 0;  // calls of touch()

    bool operator==(const Info&) const = default;
  };

  explicit PrefixIndex(PrefixLimits limits);
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The prefix of this key that begins with the most tokens of the prompt, at least one. With a
  // window, all of the prefix has to match: what a part of it needs may have left the window.
  // Of several, the one that matches whole; else the most recently used. That leaves no tie.
  std::optional<Match> find(std::span<const int32_t> prompt, PrefixKey key) const;

  // The longest prefix of the key's window but of another depth that is, whole, a beginning of the
  // prompt; of several, the one of the least depth. One walk for every depth of that window.
  std::optional<Match> find_at_other_loops(std::span<const int32_t> prompt, PrefixKey key) const;

  // The prefix that is exactly these tokens.
  std::optional<int32_t> exact(std::span<const int32_t> tokens, PrefixKey key) const;

  // Whether a prefix of so many bytes can be held at all, were it the only one.
  bool could_fit(size_t bytes) const { return limits_.bytes == 0 || bytes <= limits_.bytes; }

  // A new prefix, the most recently used; needs could_fit(bytes), at least one token, and that
  // exact() finds nothing. Evicts the least recently used until both limits hold. The id is then
  // the smallest that is free, hence at most limits.entries. O(tokens + prefixes). If memory runs
  // out, nothing has changed.
  Inserted insert(std::span<const int32_t> tokens, PrefixKey key, size_t bytes);

  // Both of a live id.
  void touch(int32_t id);  // a hit: makes it the most recently used
  void erase(int32_t id);

  std::optional<Info> info(int32_t id) const;
  const std::list<int32_t>& oldest_first() const { return by_age_; }

  size_t size() const { return by_age_.size(); }
  size_t bytes() const { return bytes_; }
  size_t node_count() const;  // of all trees: less than two a prefix

 private:
  struct Entry {
    Info info;
    TokenTree::Place place = TokenTree::kNowhere;
    std::list<int32_t>::iterator age;

    bool live() const { return info.length > 0; }
  };

  // Brings the depths of one window together.
  struct WindowFirst {
    bool operator()(const PrefixKey& a, const PrefixKey& b) const {
      return a.window != b.window ? a.window < b.window : a.loops < b.loops;
    }
  };
  using Trees = std::map<PrefixKey, TokenTree, WindowFirst>;

  Entry& entry(int32_t id) { return entries_[static_cast<size_t>(id - 1)]; }
  const Entry& entry(int32_t id) const { return entries_[static_cast<size_t>(id - 1)]; }
  bool live(int32_t id) const;
  std::vector<int32_t> victims(size_t bytes) const;
  int32_t smallest_free_id(std::span<const int32_t> also_free) const;
  TokenTree::Place insert_into_tree(std::span<const int32_t> tokens, PrefixKey key, int32_t id);
  void drop_if_empty(Trees::iterator tree) noexcept;
  void remove(int32_t id) noexcept;

  PrefixLimits limits_;
  Trees trees_;                 // none is empty
  std::vector<Entry> entries_;  // by id - 1
  std::list<int32_t> by_age_;   // least recently used first
  size_t bytes_ = 0;
};

}  // namespace tinyloop::engine
