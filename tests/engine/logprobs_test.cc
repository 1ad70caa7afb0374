#include "engine/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/error.h"

namespace tinyloop::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Logprobs, HandComputed) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  EXPECT_NEAR(*log_sum_exp(logits), std::log(8.0), 1e-6);
  EXPECT_NEAR(*token_logprob(logits, 0), std::log(1.0 / 8), 1e-6);
  EXPECT_NEAR(*token_logprob(logits, 2), std::log(5.0 / 8), 1e-6);
  EXPECT_EQ(*token_logprob(std::vector<float>{42.0f}, 0), 0.0f);
}

TEST(Logprobs, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {1e30f, 1e30f, -1e30f};
  EXPECT_EQ(*log_sum_exp(logits), double{1e30f} + std::log(2.0));
  EXPECT_EQ(*token_logprob(logits, 2), static_cast<float>(-2.0 * double{1e30f}));
  EXPECT_EQ(*token_logprob(std::vector<float>{0, -kInfinity}, 1), -kInfinity);
}

TEST(Logprobs, RowsWithoutAMeaning) {
  PositionLogprobs out;
  for (const auto& row : {std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()},
                          std::vector<float>{1, kInfinity}, std::vector<float>{-kInfinity}}) {
    EXPECT_EQ(log_sum_exp(row), std::nullopt);
    EXPECT_EQ(token_logprob(row, 0), std::nullopt);
    EXPECT_FALSE(position_logprobs(row, 0, 1, out));
  }
  EXPECT_EQ(log_sum_exp({}), std::nullopt);
  EXPECT_THROW((void)token_logprob(std::vector<float>{1}, 1), base::Failure);
  EXPECT_THROW((void)token_logprob(std::vector<float>{1}, -1), base::Failure);
}

TEST(Logprobs, EqualLogitsAreOrderedById) {
  PositionLogprobs out;
  ASSERT_TRUE(position_logprobs(std::vector<float>{1, 2, 2, 0, 2}, 3, 4, out));
  std::vector<int32_t> ids;
  for (const auto& entry : out.top) ids.push_back(entry.token);
  EXPECT_EQ(ids, std::vector<int32_t>({1, 2, 4, 0}));
  EXPECT_EQ(out.chosen.token, 3);
}

TEST(Logprobs, TopEqualsAFullSort) {
  std::mt19937 random(8);
  PositionLogprobs out;
  for (int round = 0; round < 500; ++round) {
    std::vector<float> logits(1 + random() % 300);
    for (float& z : logits) z = static_cast<float>(random() % 100) / 8;
    const auto top = static_cast<int32_t>(random() % 65);
    const auto chosen = static_cast<int32_t>(random() % logits.size());
    ASSERT_TRUE(position_logprobs(logits, chosen, top, out));
    std::vector<size_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
    ASSERT_EQ(out.top.size(), std::min<size_t>(static_cast<size_t>(top), logits.size()));
    double total = 0;
    for (const float z : logits) total += std::exp(double{z});
    for (size_t i = 0; i < out.top.size(); ++i) {
      ASSERT_EQ(out.top[i].token, static_cast<int32_t>(ids[i]));
      ASSERT_NEAR(out.top[i].logprob, logits[ids[i]] - std::log(total), 1e-5);
    }
    ASSERT_EQ(out.chosen.logprob, *token_logprob(logits, chosen));
  }
}

}  // namespace
}  // namespace tinyloop::engine
