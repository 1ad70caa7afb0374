// PrefixIndex against its definition: a list of prefixes, searched from end to end.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "engine/prefix_index.h"

namespace tinyloop::engine {
namespace {

using Tokens = std::vector<int32_t>;
using Match = PrefixIndex::Match;

int32_t common(const Tokens& a, const Tokens& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return int32_t(end - a.begin());
}

class NaiveIndex {
 public:
  struct Entry {
    int32_t id;
    PrefixKey key;
    Tokens tokens;
    size_t bytes;
    uint64_t hits = 0;
  };

  explicit NaiveIndex(PrefixLimits limits) : limits_(limits) {}

  std::optional<Match> find(const Tokens& prompt, PrefixKey key) const {
    std::optional<Match> best;
    for (const Entry& e : entries_) {  // of equals the last, the most recently used
      const Match match = match_of(e, prompt);
      if (e.key != key || match.length == 0 || (key.window > 0 && !match.whole)) continue;
      const auto rank = [](const Match& m) { return std::pair(m.length, m.whole); };
      if (!best || rank(match) >= rank(*best)) best = match;
    }
    return best;
  }

  std::optional<Match> find_at_other_loops(const Tokens& prompt, PrefixKey key) const {
    const Entry* best = nullptr;
    const auto rank = [](const Entry& e) { return std::pair(e.tokens.size(), -e.key.loops); };
    for (const Entry& e : entries_) {
      if (e.key.window != key.window || e.key.loops == key.loops) continue;
      if (match_of(e, prompt).whole && (!best || rank(e) > rank(*best))) best = &e;
    }
    return best ? std::optional(match_of(*best, prompt)) : std::nullopt;
  }

  std::optional<int32_t> exact(const Tokens& tokens, PrefixKey key) const {
    for (const Entry& e : entries_) {
      if (e.key == key && e.tokens == tokens) return e.id;
    }
    return std::nullopt;
  }

  PrefixIndex::Inserted insert(const Tokens& tokens, PrefixKey key, size_t bytes) {
    PrefixIndex::Inserted inserted;
    while (entries_.size() >= limits_.entries ||
           (limits_.bytes > 0 && this->bytes() + bytes > limits_.bytes)) {
      inserted.evicted.push_back(entries_.front().id);
      entries_.erase(entries_.begin());
    }
    for (inserted.id = 1; at(inserted.id) != entries_.end();) ++inserted.id;
    entries_.push_back({inserted.id, key, tokens, bytes});
    return inserted;
  }

  void touch(int32_t id) {
    const auto entry = at(id);
    ++entry->hits;
    std::rotate(entry, entry + 1, entries_.end());
  }

  void erase(int32_t id) { entries_.erase(at(id)); }

  size_t bytes() const {
    size_t sum = 0;
    for (const Entry& e : entries_) sum += e.bytes;
    return sum;
  }

  // Of a compressed tree: one where a prefix ends, and one where two part.
  size_t node_count() const {
    std::set<std::pair<PrefixKey, Tokens>> nodes;
    for (const Entry& a : entries_) {
      for (const Entry& b : entries_) {
        const int32_t length = common(a.tokens, b.tokens);
        if (a.key != b.key || length == 0) continue;
        nodes.emplace(a.key, Tokens(a.tokens.begin(), a.tokens.begin() + length));
      }
    }
    return nodes.size();
  }

  const std::vector<Entry>& oldest_first() const { return entries_; }

 private:
  static Match match_of(const Entry& e, const Tokens& prompt) {
    const int32_t length = common(e.tokens, prompt);
    return {e.id, length, length == int32_t(e.tokens.size())};
  }

  std::vector<Entry>::iterator at(int32_t id) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [id](const Entry& e) { return e.id == id; });
  }

  PrefixLimits limits_;
  std::vector<Entry> entries_;  // least recently used first
};

class RandomRun {
 public:
  RandomRun(uint32_t seed, PrefixLimits limits) : random_(seed), limits_(limits) {}

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      SCOPED_TRACE("operation " + std::to_string(i));
      operate();
      compare_state();
      compare_answers();
    }
    while (naive_.oldest_first().size() > 0) erase(any_id());
    EXPECT_EQ(index_.node_count(), 0u);
    EXPECT_EQ(index_.bytes(), 0u);
  }

  size_t evicted() const { return evicted_; }
  size_t parts() const { return parts_; }
  size_t other_loops() const { return other_loops_; }

 private:
  uint32_t pick(uint32_t below) { return uint32_t(random_() % below); }

  // Mostly with the beginning of another, so that long ones are often shared.
  Tokens any_tokens() {
    Tokens tokens;
    if (const auto& all = naive_.oldest_first(); !all.empty() && pick(2)) {
      tokens = all[pick(uint32_t(all.size()))].tokens;
      tokens.resize(1 + pick(uint32_t(tokens.size())));
    }
    for (uint32_t n = pick(6) + tokens.empty(); n > 0; --n) tokens.push_back(int32_t(pick(3)));
    return tokens;
  }

  PrefixKey any_key() { return {.loops = int32_t(2 + pick(3)), .window = int32_t(16 * pick(2))}; }

  int32_t any_id() {
    const auto& all = naive_.oldest_first();
    return all[pick(uint32_t(all.size()))].id;
  }

  void operate() {
    const uint32_t kind = pick(10);
    if (naive_.oldest_first().empty() || kind < 5) {
      insert(any_tokens(), any_key(), pick(uint32_t(limits_.bytes / 3 + 9)));
    } else if (kind < 8) {
      const int32_t id = any_id();
      index_.touch(id);
      naive_.touch(id);
    } else {
      erase(any_id());
    }
  }

  void insert(const Tokens& tokens, PrefixKey key, size_t bytes) {
    const auto present = index_.exact(tokens, key);
    ASSERT_EQ(present, naive_.exact(tokens, key));
    if (present || !index_.could_fit(bytes)) return;
    const auto got = index_.insert(tokens, key, bytes), want = naive_.insert(tokens, key, bytes);
    ASSERT_EQ(got.id, want.id);
    ASSERT_EQ(got.evicted, want.evicted);
    evicted_ += got.evicted.size();
  }

  void erase(int32_t id) {
    index_.erase(id);
    naive_.erase(id);
    ASSERT_FALSE(index_.info(id));
  }

  void compare_state() {
    ASSERT_EQ(index_.size(), naive_.oldest_first().size());
    ASSERT_EQ(index_.bytes(), naive_.bytes());
    ASSERT_EQ(index_.node_count(), naive_.node_count());
    auto id = index_.oldest_first().begin();
    for (const auto& e : naive_.oldest_first()) {
      ASSERT_EQ(*id++, e.id);
      const PrefixIndex::Info info{int32_t(e.tokens.size()), e.key, e.bytes, e.hits};
      ASSERT_EQ(index_.info(e.id), info);
      ASSERT_EQ(index_.exact(e.tokens, e.key), e.id);
    }
  }

  void compare_answers() {
    for (int i = 0; i < 3; ++i) {
      const Tokens prompt = any_tokens();
      const PrefixKey key = any_key();
      const auto found = index_.find(prompt, key), other = index_.find_at_other_loops(prompt, key);
      ASSERT_EQ(found, naive_.find(prompt, key));
      ASSERT_EQ(other, naive_.find_at_other_loops(prompt, key));
      ASSERT_EQ(index_.exact(prompt, key), naive_.exact(prompt, key));
      parts_ += found && !found->whole;
      other_loops_ += other.has_value();
    }
  }

  std::mt19937 random_;
  PrefixLimits limits_;
  PrefixIndex index_{limits_};
  NaiveIndex naive_{limits_};
  size_t evicted_ = 0, parts_ = 0, other_loops_ = 0;
};

TEST(PrefixIndex, EqualsTheDefinitionOnRandomOperations) {
  size_t evicted = 0, parts = 0, other_loops = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    // From few to many entries; every other time bytes are the narrower limit.
    RandomRun run(seed, {.entries = 1 + seed * 2, .bytes = seed % 2 ? 0 : seed * 10});
    run.run(2000);
    if (HasFatalFailure()) return;
    evicted += run.evicted();
    parts += run.parts();
    other_loops += run.other_loops();
  }
  EXPECT_GT(evicted, 3000u);
  EXPECT_GT(parts, 5000u);
  EXPECT_GT(other_loops, 5000u);
}

}  // namespace
}  // namespace tinyloop::engine
