#include "engine/prefix_index.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/limits.h"

namespace tinyloop::engine {
namespace {

using Tokens = std::vector<int32_t>;
using Ids = std::vector<int32_t>;
using Match = PrefixIndex::Match;

constexpr PrefixKey kKey{.loops = 4, .window = 0};
constexpr PrefixKey kDeeper{.loops = 8, .window = 0};
constexpr PrefixKey kWindowed{.loops = 4, .window = 16};

Ids oldest_first(const PrefixIndex& index) {
  return {index.oldest_first().begin(), index.oldest_first().end()};
}

TEST(PrefixIndex, AnEmptyOneAnswersNothing) {
  const PrefixIndex index({.entries = 4});
  EXPECT_FALSE(index.find(Tokens{1}, kKey));
  EXPECT_FALSE(index.find_at_other_loops(Tokens{1}, kKey));
  EXPECT_FALSE(index.exact(Tokens{1}, kKey));
  EXPECT_FALSE(index.info(1));
  EXPECT_EQ(index.size(), 0u);
  EXPECT_EQ(index.bytes(), 0u);
  EXPECT_EQ(index.node_count(), 0u);
}

TEST(PrefixIndex, TheLongestBeginningServes) {
  PrefixIndex index({.entries = 4});
  index.insert(Tokens{1}, kKey, 0);
  index.insert(Tokens{1, 2, 3}, kKey, 0);
  index.insert(Tokens{1, 2}, kKey, 0);
  EXPECT_EQ(index.find(Tokens{1, 2, 3, 4}, kKey), (Match{2, 3, true}));
  EXPECT_EQ(index.find(Tokens{1, 2, 3}, kKey), (Match{2, 3, true}));
  EXPECT_EQ(index.find(Tokens{1, 2, 9}, kKey), (Match{3, 2, true}));
  EXPECT_EQ(index.find(Tokens{1}, kKey), (Match{1, 1, true}));
  EXPECT_FALSE(index.find(Tokens{2, 1}, kKey));
  EXPECT_FALSE(index.find(Tokens{}, kKey));
}

TEST(PrefixIndex, WithoutAWindowAPartServes) {
  PrefixIndex index({.entries = 4});
  index.insert(Tokens{1, 2, 3, 4}, kKey, 0);
  EXPECT_EQ(index.find(Tokens{1, 2}, kKey), (Match{1, 2, false}));
  EXPECT_EQ(index.find(Tokens{1, 2, 9, 4}, kKey), (Match{1, 2, false}));
  index.insert(Tokens{1}, kKey, 0);
  EXPECT_EQ(index.find(Tokens{1, 2, 9}, kKey), (Match{1, 2, false}));
}

TEST(PrefixIndex, WithAWindowOnlyTheWholeServes) {
  PrefixIndex index({.entries = 4});
  index.insert(Tokens{1, 2, 3, 4}, kWindowed, 0);
  EXPECT_FALSE(index.find(Tokens{1, 2, 3}, kWindowed));
  EXPECT_FALSE(index.find(Tokens{1, 2, 3, 5}, kWindowed));
  EXPECT_EQ(index.find(Tokens{1, 2, 3, 4, 5}, kWindowed), (Match{1, 4, true}));
  index.insert(Tokens{1, 2}, kWindowed, 0);
  EXPECT_EQ(index.find(Tokens{1, 2, 3, 5}, kWindowed), (Match{2, 2, true}));
}

TEST(PrefixIndex, OfTheSameLengthTheWholeServesThenTheMostRecent) {
  PrefixIndex index({.entries = 4});
  index.insert(Tokens{1, 2}, kKey, 0);
  index.insert(Tokens{1, 2, 3}, kKey, 0);
  index.insert(Tokens{1, 2, 4}, kKey, 0);
  EXPECT_EQ(index.find(Tokens{1, 2, 9}, kKey), (Match{1, 2, true}));
  EXPECT_EQ(index.find(Tokens{1}, kKey), (Match{3, 1, false}));
  index.touch(2);
  EXPECT_EQ(index.find(Tokens{1, 2, 9}, kKey), (Match{1, 2, true}));
  EXPECT_EQ(index.find(Tokens{1}, kKey), (Match{2, 1, false}));
  index.touch(1);
  EXPECT_EQ(index.find(Tokens{1}, kKey), (Match{1, 1, false}));
  index.erase(1);
  EXPECT_EQ(index.find(Tokens{1, 2, 9}, kKey), (Match{2, 2, false}));
  index.erase(2);
  EXPECT_EQ(index.find(Tokens{1, 2, 9}, kKey), (Match{3, 2, false}));
}

TEST(PrefixIndex, OnlyTheRequestsOwnKeyServes) {
  PrefixIndex index({.entries = 4});
  EXPECT_EQ(index.insert(Tokens{1, 2}, kKey, 0).id, 1);
  EXPECT_EQ(index.insert(Tokens{1, 2}, kDeeper, 0).id, 2);
  EXPECT_EQ(index.find(Tokens{1, 2}, kKey)->id, 1);
  EXPECT_EQ(index.find(Tokens{1, 2}, kDeeper)->id, 2);
  EXPECT_FALSE(index.find(Tokens{1, 2}, kWindowed));
  EXPECT_EQ(index.exact(Tokens{1, 2}, kDeeper), 2);
  EXPECT_FALSE(index.exact(Tokens{1, 2}, kWindowed));
}

TEST(PrefixIndex, ExactIsNeitherAPartNorMore) {
  PrefixIndex index({.entries = 4});
  index.insert(Tokens{1, 2, 3}, kKey, 0);
  EXPECT_EQ(index.exact(Tokens{1, 2, 3}, kKey), 1);
  EXPECT_FALSE(index.exact(Tokens{1, 2}, kKey));
  EXPECT_FALSE(index.exact(Tokens{1, 2, 3, 4}, kKey));
  EXPECT_FALSE(index.exact(Tokens{1, 2, 4}, kKey));
  EXPECT_FALSE(index.exact(Tokens{}, kKey));
}

TEST(PrefixIndex, OtherDepthsOfTheSameWindowAreToldOfWholeMatchesAlone) {
  PrefixIndex index({.entries = 8});
  index.insert(Tokens{1, 2}, kDeeper, 0);
  EXPECT_EQ(index.find_at_other_loops(Tokens{1, 2, 3}, kKey), (Match{1, 2, true}));
  EXPECT_FALSE(index.find_at_other_loops(Tokens{1}, kKey));
  EXPECT_FALSE(index.find_at_other_loops(Tokens{1, 2, 3}, kDeeper));
  EXPECT_FALSE(index.find_at_other_loops(Tokens{1, 2, 3}, kWindowed));
  index.insert(Tokens{1, 2}, {.loops = 2}, 0);
  EXPECT_EQ(index.find_at_other_loops(Tokens{1, 2, 3}, kKey), (Match{2, 2, true}));
  index.insert(Tokens{1, 2, 3}, {.loops = 64}, 0);
  EXPECT_EQ(index.find_at_other_loops(Tokens{1, 2, 3}, kKey), (Match{3, 3, true}));
  EXPECT_EQ(index.info(3)->key.loops, 64);
}

TEST(PrefixIndex, TheLeastRecentlyUsedGoesFirst) {
  PrefixIndex index({.entries = 3});
  for (int32_t token = 1; token <= 3; ++token) index.insert(Tokens{token}, kKey, 10);
  EXPECT_EQ(oldest_first(index), (Ids{1, 2, 3}));
  index.touch(1);
  index.touch(3);
  index.touch(3);
  EXPECT_EQ(oldest_first(index), (Ids{2, 1, 3}));
  const auto inserted = index.insert(Tokens{4}, kDeeper, 10);
  EXPECT_EQ(inserted.evicted, (Ids{2}));
  EXPECT_EQ(inserted.id, 2);
  EXPECT_EQ(oldest_first(index), (Ids{1, 3, 2}));
  EXPECT_FALSE(index.exact(Tokens{2}, kKey));
  EXPECT_EQ(index.info(3), (PrefixIndex::Info{1, kKey, 10, 2}));
  EXPECT_EQ(index.info(2), (PrefixIndex::Info{1, kDeeper, 10, 0}));
  EXPECT_EQ(index.bytes(), 30u);
}

TEST(PrefixIndex, OneEntryAlone) {
  PrefixIndex index({.entries = 1});
  index.insert(Tokens{1, 2, 3}, kKey, 5);
  const auto inserted = index.insert(Tokens{1, 2}, kKey, 7);
  EXPECT_EQ(inserted.evicted, (Ids{1}));
  EXPECT_EQ(inserted.id, 1);
  EXPECT_EQ(index.find(Tokens{1, 2, 3}, kKey), (Match{1, 2, true}));
  EXPECT_EQ(index.bytes(), 7u);
  EXPECT_EQ(index.node_count(), 1u);
}

TEST(PrefixIndex, BytesMayEvictSeveral) {
  PrefixIndex index({.entries = 9, .bytes = 100});
  for (int32_t token = 1; token <= 4; ++token) index.insert(Tokens{token}, kKey, 25);
  index.touch(1);
  EXPECT_TRUE(index.insert(Tokens{5}, kKey, 0).evicted.empty());
  EXPECT_EQ(index.insert(Tokens{6}, kKey, 51).evicted, (Ids{2, 3, 4}));
  EXPECT_EQ(oldest_first(index), (Ids{1, 5, 2}));
  EXPECT_EQ(index.bytes(), 76u);
  EXPECT_TRUE(index.insert(Tokens{7}, kKey, 24).evicted.empty());
  EXPECT_EQ(index.bytes(), 100u);
}

TEST(PrefixIndex, AnEntryAsLargeAsTheLimitStandsAlone) {
  PrefixIndex index({.entries = 9, .bytes = 100});
  EXPECT_TRUE(index.could_fit(100));
  EXPECT_FALSE(index.could_fit(101));
  EXPECT_FALSE(index.could_fit(SIZE_MAX));
  index.insert(Tokens{1}, kKey, 60);
  EXPECT_EQ(index.insert(Tokens{2}, kKey, 100).evicted, (Ids{1}));
  EXPECT_THROW(index.insert(Tokens{3}, kKey, 101), base::Failure);
  EXPECT_EQ(index.size(), 1u);
  EXPECT_TRUE(PrefixIndex({.entries = 1}).could_fit(SIZE_MAX));
}

TEST(PrefixIndex, TheSmallestFreeIdIsTakenAgain) {
  PrefixIndex index({.entries = 5});
  for (int32_t token = 1; token <= 5; ++token) index.insert(Tokens{token}, kKey, 1);
  index.erase(4);
  index.erase(2);
  EXPECT_FALSE(index.info(2));
  EXPECT_EQ(index.insert(Tokens{6}, kKey, 1).id, 2);
  EXPECT_EQ(index.insert(Tokens{7}, kKey, 1).id, 4);
  EXPECT_EQ(index.find(Tokens{6}, kKey)->id, 2);
}

TEST(PrefixIndex, NothingRemainsWhenAllIsErased) {
  PrefixIndex index({.entries = 8});
  index.insert(Tokens{1, 2, 3, 4}, kKey, 3);
  index.insert(Tokens{1, 2, 5}, kKey, 3);
  index.insert(Tokens{1, 2, 3}, kDeeper, 3);
  EXPECT_EQ(index.node_count(), 4u);
  index.erase(1);
  EXPECT_EQ(index.node_count(), 2u);
  EXPECT_EQ(index.find(Tokens{1, 2, 3, 4}, kKey), (Match{2, 2, false}));
  index.erase(3);
  index.erase(2);
  EXPECT_EQ(index.node_count(), 0u);
  EXPECT_EQ(index.bytes(), 0u);
  EXPECT_EQ(index.size(), 0u);
  EXPECT_FALSE(index.find(Tokens{1, 2, 3, 4}, kKey));
}

TEST(PrefixIndex, TheLongestPrefix) {
  PrefixIndex index({.entries = 2});
  const Tokens tokens(base::kMaxSeqLen, 3);
  index.insert(tokens, kKey, 1);
  EXPECT_EQ(index.find(tokens, kKey), (Match{1, base::kMaxSeqLen, true}));
  EXPECT_EQ(index.find(std::span(tokens).first(5), kKey), (Match{1, 5, false}));
}

TEST(PrefixIndex, MisuseIsABug) {
  EXPECT_THROW(PrefixIndex({.entries = 0}), base::Failure);
  PrefixIndex index({.entries = 2});
  index.insert(Tokens{1, 2}, kKey, 1);
  EXPECT_THROW(index.insert(Tokens{1, 2}, kKey, 1), base::Failure);
  EXPECT_THROW(index.insert(Tokens{}, kDeeper, 1), base::Failure);
  EXPECT_THROW(index.touch(2), base::Failure);
  EXPECT_THROW(index.touch(0), base::Failure);
  EXPECT_THROW(index.erase(-1), base::Failure);
  index.erase(1);
  EXPECT_THROW(index.erase(1), base::Failure);
  EXPECT_FALSE(index.info(-1));
}

}  // namespace
}  // namespace tinyloop::engine
