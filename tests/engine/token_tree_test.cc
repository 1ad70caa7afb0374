#include "engine/token_tree.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/limits.h"

namespace tinyloop::engine {
namespace {

using Tokens = std::vector<int32_t>;

TEST(TokenTree, EmptyFollowsNothing) {
  const TokenTree tree;
  const auto walk = tree.follow(Tokens{1, 2});
  EXPECT_EQ(walk.length, 0);
  EXPECT_EQ(walk.whole, TokenTree::kNowhere);
  EXPECT_EQ(tree.latest(walk.at), TokenTree::kNowhere);
  EXPECT_TRUE(tree.empty());
}

TEST(TokenTree, SequencesThatPartSplitAnEdgeAndErasingJoinsItAgain) {
  TokenTree tree;
  const auto a = tree.insert(Tokens{1, 2, 3, 4}, 1);
  EXPECT_EQ(tree.node_count(), 1u);
  const auto b = tree.insert(Tokens{1, 2, 5}, 2);
  EXPECT_EQ(tree.node_count(), 3u);
  EXPECT_EQ(tree.follow(Tokens{1, 2, 3, 4, 9}).whole, a);
  EXPECT_EQ(tree.follow(Tokens{1, 2, 5}).whole, b);
  tree.erase(b);
  EXPECT_EQ(tree.node_count(), 1u);
  EXPECT_EQ(tree.find(Tokens{1, 2, 3, 4}), a);
  tree.erase(a);
  EXPECT_EQ(tree.node_count(), 0u);
}

// The edge's text was the erased sequence's.
TEST(TokenTree, AnEdgeOutlivesTheSequenceThatMadeIt) {
  TokenTree tree;
  const auto a = tree.insert(Tokens{1, 2, 3, 4}, 1);
  const auto b = tree.insert(Tokens{1, 2, 5}, 2);
  const auto c = tree.insert(Tokens{1, 2, 6}, 3);
  tree.touch(a);
  tree.erase(a);
  EXPECT_EQ(tree.node_count(), 3u);
  EXPECT_EQ(tree.find(Tokens{1, 2, 5}), b);
  EXPECT_EQ(tree.find(Tokens{1, 2, 6}), c);
  EXPECT_EQ(tree.latest(tree.follow(Tokens{1, 2}).at), c);
}

TEST(TokenTree, AMiddleSequenceIsANodeOfItsOwnUntilItIsErased) {
  TokenTree tree;
  tree.insert(Tokens{1}, 1);
  const auto middle = tree.insert(Tokens{1, 2}, 2);
  const auto end = tree.insert(Tokens{1, 2, 3}, 3);
  EXPECT_EQ(tree.node_count(), 3u);
  tree.erase(middle);
  EXPECT_EQ(tree.node_count(), 2u);
  EXPECT_EQ(tree.find(Tokens{1, 2}), TokenTree::kNowhere);
  EXPECT_EQ(tree.find(Tokens{1, 2, 3}), end);
}

TEST(TokenTree, ASequenceMayEndWhereOthersPart) {
  TokenTree tree;
  const auto a = tree.insert(Tokens{1, 2, 3}, 1);
  const auto b = tree.insert(Tokens{1, 2, 4}, 2);
  const auto middle = tree.insert(Tokens{1, 2}, 3);
  EXPECT_EQ(tree.node_count(), 3u);
  tree.erase(middle);
  EXPECT_EQ(tree.node_count(), 3u);
  EXPECT_EQ(tree.find(Tokens{1, 2, 3}), a);
  EXPECT_EQ(tree.find(Tokens{1, 2, 4}), b);
}

TEST(TokenTree, RefusesNoTokensAndTheSameTwice) {
  TokenTree tree;
  tree.insert(Tokens{1, 2}, 1);
  EXPECT_THROW(tree.insert(Tokens{}, 2), base::Failure);
  EXPECT_THROW(tree.insert(Tokens{1, 2}, 2), base::Failure);
  EXPECT_EQ(tree.node_count(), 1u);
}

TEST(TokenTree, SequencesOfTheGreatestLength) {
  TokenTree tree;
  Tokens tokens(base::kMaxSeqLen, 7);
  const auto longest = tree.insert(tokens, 1);
  EXPECT_EQ(tree.find(tokens), longest);
  tokens.back() = 8;
  EXPECT_EQ(tree.follow(tokens).length, base::kMaxSeqLen - 1);
  tree.insert(tokens, 2);
  EXPECT_EQ(tree.node_count(), 3u);
}

// Every node of the chain has one child, so nothing is deeper.
TEST(TokenTree, ADeepChainOfSequences) {
  constexpr int32_t kDepth = 3000;
  const Tokens tokens(kDepth, 7);
  TokenTree tree;
  std::vector<TokenTree::Place> places;
  for (int32_t length = 1; length <= kDepth; ++length) {
    places.push_back(tree.insert(std::span(tokens).first(size_t(length)), length));
  }
  const auto walk = tree.follow(tokens);
  EXPECT_EQ(walk.length, kDepth);
  EXPECT_EQ(walk.lookups, kDepth);
  tree.touch(places.back());
  tree.erase(places.front());
  EXPECT_EQ(tree.follow(Tokens{7}).whole, TokenTree::kNowhere);
  EXPECT_EQ(tree.find(tokens), places.back());
}

TEST(TokenTree, FollowingCostsTheSameBesideAnyNumberOfSequences) {
  const Tokens prompt{1, 1, 1, 1, 1, 1, 1, 1};
  TokenTree tree;
  tree.insert(Tokens{1, 1}, 1);
  tree.insert(Tokens{1, 1, 1, 1}, 2);
  for (int32_t at = 0; at < 4; ++at) {  // one at every branching that the large tree will have
    Tokens other(prompt.begin(), prompt.begin() + at);
    other.push_back(2);
    tree.insert(other, 3 + at);
  }
  const int32_t lookups = tree.follow(prompt).lookups;
  EXPECT_EQ(lookups, 5);  // four go on; the last finds no child
  std::mt19937 random(5);
  for (int32_t i = 0; i < 20000; ++i) {
    Tokens other(prompt.begin(), prompt.begin() + random() % 4);
    other.push_back(3 + i);
    other.resize(other.size() + random() % 4, int32_t(random() % 3));
    tree.insert(other, 10 + i);
    if (i % 1000 == 0) {
      ASSERT_EQ(tree.follow(prompt).lookups, lookups) << i;
    }
  }
  EXPECT_EQ(tree.follow(prompt).lookups, lookups);
  EXPECT_EQ(tree.follow(prompt).length, 4);
}

TEST(TokenTree, FollowingLooksUpAtMostOneChildAToken) {
  std::mt19937 random(6);
  TokenTree tree;
  const auto random_tokens = [&](size_t longest) {
    Tokens tokens(1 + random() % longest);
    for (int32_t& token : tokens) token = int32_t(random() % 2);
    return tokens;
  };
  for (int32_t i = 1; i <= 5000; ++i) {
    const Tokens tokens = random_tokens(24);
    if (tree.find(tokens) == TokenTree::kNowhere) tree.insert(tokens, i);
    const Tokens prompt = random_tokens(30);
    const auto walk = tree.follow(prompt);
    ASSERT_LE(walk.lookups, walk.length + 1);
    ASSERT_LE(walk.lookups, int32_t(prompt.size()));
  }
}

}  // namespace
}  // namespace tinyloop::engine
