#include "kernels/sampling_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tinyloop::kernels {
namespace {

constexpr float kMost = std::numeric_limits<float>::max();

TEST(SamplingMath, KeysAscendAsValuesDo) {
  const float values[] = {kLeastLogit, -kMost, -1.5f, -1e-45f,  0.0f,
                          1e-45f,      1.0f,   kMost, HUGE_VALF};
  for (size_t i = 0; i + 1 < std::size(values); ++i) {
    EXPECT_LT(order_key(values[i]), order_key(values[i + 1])) << values[i];
    EXPECT_EQ(value_of_key(order_key(values[i])), values[i]);
  }
  EXPECT_EQ(order_key(0.0f), order_key(-0.0f));
  EXPECT_GT(rank_of(1.0f, 7), rank_of(1.0f, 8));
  EXPECT_GT(rank_of(1.5f, 8), rank_of(1.0f, 7));
  EXPECT_EQ(token_of_rank(rank_of(-3.0f, 123456)), 123456);
  EXPECT_EQ(value_of_rank(rank_of(-3.0f, 123456)), -3.0f);
}

TEST(SamplingMath, ExponentialsAreNearThoseOfTheLibrary) {
  EXPECT_EQ(exp_of_negative(0.0f), 1.0f);
  EXPECT_EQ(exp_of_negative(kLeastLogit), 0.0f);
  EXPECT_EQ(exp_of_negative(-kMost), 0.0f);
  double worst = 0;
  for (float x = -79.0f; x <= 0.0f; x += 1.7e-4f) {
    const double exact = std::exp(double{x});
    worst = std::max(worst, std::abs(exp_of_negative(x) - exact) / exact);
  }
  EXPECT_LT(worst, 2e-7);
}

TEST(SamplingMath, LogarithmsAreNearThoseOfTheLibrary) {
  double worst = 0, worst_precise = 0;
  for (float x = 1.2e-38f; x < 1e37f; x *= 1.00013f) {
    const double exact = std::log(double{x}), scale = std::max(std::abs(exact), 1e-3);
    worst = std::max(worst, std::abs(log_of(x) - exact) / scale);
    worst_precise = std::max(worst_precise, std::abs(precise_log(double{x}) - exact) / scale);
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_LT(worst_precise, 1e-14);
  EXPECT_EQ(log_of(1.0f), 0.0f);
}

TEST(SamplingMath, NoiseIsGumbelsAndFinite) {
  EXPECT_NEAR(gumbel(0), -std::log(33 * std::log(2.0)), 1e-6);
  EXPECT_NEAR(gumbel(~0u), 33 * std::log(2.0), 1e-5);
  EXPECT_LT(gumbel(~0u), kMostGumbel);
  std::mt19937 random(3);
  for (int i = 0; i < 400'000; ++i) {
    const uint32_t word = i < 5000 ? uint32_t(i) : i < 10'000 ? ~uint32_t(i - 5000) : random();
    const double rest = (double(~word) + 0.5) * 0x1p-32;  // 1 − u
    ASSERT_NEAR(gumbel(word), -std::log(-std::log1p(-rest)), 3e-6) << word;
    ASSERT_LE(gumbel(word), gumbel_bound(word)) << word;
  }
}

// Every compiler, target and device has to agree: 2^20 of each function's values, as one number.
TEST(SamplingMath, BitsAreTheSameEverywhere) {
  uint64_t exponentials = 0, noise = 0;
  for (uint32_t i = 0; i < 1u << 20; ++i) {
    const uint32_t word = i * 2654435761u;
    exponentials = exponentials * 31 + weight_of(-30.0f * (float(word) * 0x1p-32f));
    noise = noise * 31 + std::bit_cast<uint32_t>(gumbel(word));
  }
  EXPECT_EQ(exponentials, 11196247864188666736u);
  EXPECT_EQ(noise, 16399266327972262480u);
}

TEST(SamplingMath, SharesOfSums) {
  EXPECT_EQ(share_of(1000, 0.5f), 500u);
  EXPECT_EQ(share_of(1000, 1e-30f), 1u);
  EXPECT_EQ(share_of((uint64_t{1} << 62) - 1, 0.75f), (uint64_t{3} << 60) - 1);
  EXPECT_LE(share_of(1, 0.9999999f), 1u);
  EXPECT_NEAR(log_of_weights(uint64_t{3} << 40), std::log(3.0), 1e-15);
  EXPECT_FLOAT_EQ(least_scaled_of(0.25f), std::log(0.25f));
  EXPECT_NEAR(least_scaled_of(1e-45f), std::log(double{1e-45f}), 1e-4);
}

TEST(SamplingMath, Penalties) {
  const Penalties none{1.0f, 0.0f, 0.0f}, all{2.0f, 0.5f, 0.25f};
  EXPECT_EQ(penalised(4.0f, kInPrompt | 3, none), 4.0f);
  EXPECT_EQ(penalised(4.0f, 0, all), 4.0f);
  EXPECT_EQ(penalised(4.0f, kInPrompt, all), 2.0f);
  EXPECT_EQ(penalised(-4.0f, kInPrompt, all), -8.0f);
  EXPECT_EQ(penalised(4.0f, 3, all), 2.0f - 1.25f);
  EXPECT_EQ(penalised(4.0f, kInPrompt | 1, all), 2.0f - 0.75f);
  EXPECT_EQ(penalised(kMost, kInPrompt, {1e-30f, 0, 0}), kMost);
  EXPECT_EQ(penalised(-kMost, 2, {1e30f, 2, 2}), -kMost);
}

}  // namespace
}  // namespace tinyloop::kernels
