#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/error.h"
#include "base/philox.h"

namespace tinyloop::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The definition in sampler.h, step by step, with a full sort.
std::optional<int32_t> naive_sample(std::vector<float> z, const GenerateConfig& config,
                                    const std::vector<int32_t>& history, uint64_t position) {
  std::vector<bool> seen(z.size());
  for (const int32_t token : history) seen[static_cast<size_t>(token)] = true;
  for (size_t i = 0; i < z.size(); ++i) {
    if (!seen[i]) continue;
    const double p = config.repetition_penalty;
    z[i] = static_cast<float>(z[i] > 0 ? z[i] / p : z[i] * p);
  }
  std::vector<size_t> ids(z.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](size_t a, size_t b) { return z[a] > z[b]; });
  if (config.temperature == 0) return static_cast<int32_t>(ids[0]);
  if (config.top_k > 0 && static_cast<size_t>(config.top_k) < ids.size()) {
    ids.resize(static_cast<size_t>(config.top_k));
  }
  std::vector<double> weights;
  for (const size_t id : ids) {
    weights.push_back(std::exp((double{z[id]} - double{z[ids[0]]}) / double{config.temperature}));
  }
  if (config.top_p < 1) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    double running = 0;
    size_t kept = 0;
    while (kept < weights.size() && (kept == 0 || running < double{config.top_p} * total)) {
      running += weights[kept++];
    }
    weights.resize(kept);
  }
  std::erase_if(weights,
                [&, first = weights[0]](double w) { return w < double{config.min_p} * first; });
  const auto words = base::philox(config.seed, base::RandomDomain::sampling, position, 0);
  const double target = base::uniform_double(words[0], words[1]) *
                        std::accumulate(weights.begin(), weights.end(), 0.0);
  double running = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if ((running += weights[i]) > target) return static_cast<int32_t>(ids[i]);
  }
  return std::nullopt;
}

GenerateConfig sampling(float temperature = 1.0f) {
  GenerateConfig config;
  config.temperature = temperature;
  return config;
}

int32_t pick(const std::vector<float>& logits, const GenerateConfig& config, uint64_t position = 0,
             const std::vector<int32_t>& history = {}) {
  Sampler sampler(logits.size());
  PenaltyHistory seen(logits.size());
  seen.add(history);
  return sampler.sample(logits, config, seen, position).value();
}

std::vector<int> counts(const std::vector<float>& logits, const GenerateConfig& config, int draws) {
  Sampler sampler(logits.size());
  std::vector<int> result(logits.size());
  for (int i = 0; i < draws; ++i) {
    ++result[static_cast<size_t>(
        sampler.sample(logits, config, {}, static_cast<uint64_t>(i)).value())];
  }
  return result;
}

TEST(Sampler, GreedyTakesTheLargestAndOfEqualsTheSmallestId) {
  EXPECT_EQ(pick({1, 3, 2}, sampling(0)), 1);
  EXPECT_EQ(pick({1, 3, 3}, sampling(0)), 1);
  EXPECT_EQ(pick({-0.0f, 0.0f}, sampling(0)), 0);
  EXPECT_EQ(pick({-5, -kInfinity, -4}, sampling(0)), 2);
  EXPECT_EQ(pick({7}, sampling(0)), 0);
}

TEST(Sampler, PenaltyDividesPositiveAndMultipliesNegativeLogits) {
  GenerateConfig config = sampling(0);
  config.repetition_penalty = 2.0f;
  EXPECT_EQ(pick({4, 3}, config), 0);
  EXPECT_EQ(pick({4, 3}, config, 0, {0}), 1);        // 2 < 3
  EXPECT_EQ(pick({4, 3}, config, 0, {0, 0, 1}), 0);  // once a token: 2 > 1.5
  EXPECT_EQ(pick({-2, -3}, config, 0, {0}), 1);      // -4 < -3
  EXPECT_EQ(pick({4, 2}, config, 0, {0}), 0);        // 2 = 2: smaller id
  config.repetition_penalty = 0.5f;
  EXPECT_EQ(pick({4, 3}, config, 0, {1}), 1);  // 6 > 4
}

TEST(Sampler, ExtremePenaltiesStayFinite) {
  GenerateConfig config = sampling(0);
  for (const float penalty : {1e-38f, 1e38f}) {
    config.repetition_penalty = penalty;
    EXPECT_EQ(pick({1e30f, 1e29f, -1e30f, -1e31f}, config, 0, {0, 2}), penalty < 1 ? 0 : 1);
  }
}

TEST(Sampler, TopKOfOneIsGreedy) {
  GenerateConfig config = sampling(5);
  config.top_k = 1;
  for (uint64_t position = 0; position < 50; ++position) {
    EXPECT_EQ(pick({1, 3, 3, 2}, config, position), 1);
  }
}

TEST(Sampler, FiltersKeepWhatTheyShould) {
  // Probabilities 1/2, 1/4, 1/8, 1/8.
  const std::vector<float> logits = {std::log(2.0f), std::log(4.0f), 0.0f, 0.0f};
  const auto alive = [&](const GenerateConfig& config) {
    std::vector<bool> result;
    for (const int count : counts(logits, config, 2000)) result.push_back(count > 0);
    return result;
  };
  using Flags = std::vector<bool>;
  GenerateConfig config = sampling();
  EXPECT_EQ(alive(config), Flags({true, true, true, true}));
  config.top_k = 3;
  EXPECT_EQ(alive(config), Flags({true, true, true, false}));
  config.top_p = 0.6f;  // of 4/7 + 2/7 + 1/7 after top_k: 0.571 is less
  EXPECT_EQ(alive(config), Flags({true, true, false, false}));
  config.top_p = 0.55f;
  EXPECT_EQ(alive(config), Flags({false, true, false, false}));
  config = sampling();
  config.min_p = 0.3f;
  EXPECT_EQ(alive(config), Flags({true, true, false, false}));
  config.min_p = 0.2f;
  EXPECT_EQ(alive(config), Flags({true, true, true, true}));
}

TEST(Sampler, EqualsTheDefinition) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> unit(0, 1);
  for (int round = 0; round < 6000; ++round) {
    const size_t vocab = 1 + random() % (round % 10 == 0 ? 3000 : 60);
    std::vector<float> logits(vocab);
    for (float& z : logits) {
      z = random() % 4 == 0 ? static_cast<float>(random() % 5) - 2 : 16 * unit(random) - 8;
      if (random() % 16 == 0) z = -kInfinity;
    }
    logits[random() % vocab] = 0.5f;  // at least one can be chosen
    GenerateConfig config = sampling(random() % 8 == 0 ? 0.0f : 0.05f + 2 * unit(random));
    config.seed = random();
    if (random() % 2) config.top_k = static_cast<int32_t>(random() % (vocab + 4));
    if (random() % 2) config.top_p = 1.0f - unit(random) * 0.999f;
    if (random() % 2) config.min_p = 0.5f * unit(random);
    if (random() % 2) config.repetition_penalty = 0.5f + unit(random);
    std::vector<int32_t> history(random() % 20);
    for (auto& token : history) token = static_cast<int32_t>(random() % vocab);
    const uint64_t position = random();
    ASSERT_EQ(pick(logits, config, position, history),
              naive_sample(logits, config, history, position))
        << "round " << round;
  }
}

TEST(Sampler, FrequenciesFollowTheProbabilities) {
  const std::vector<float> logits = {0.0f, 1.0f, -1.0f, 2.0f, 0.5f, 0.0f, 1.5f, -2.0f};
  constexpr int kDraws = 200000;
  for (const float temperature : {0.7f, 1.0f, 1.6f}) {
    GenerateConfig config = sampling(temperature);
    config.seed = 11;
    const auto observed = counts(logits, config, kDraws);
    double total = 0, chi_square = 0;
    for (const float z : logits) total += std::exp(z / temperature);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double expected = kDraws * std::exp(logits[i] / temperature) / total;
      chi_square += (observed[i] - expected) * (observed[i] - expected) / expected;
    }
    EXPECT_LT(chi_square, 24.3);  // 7 degrees of freedom: exceeded by chance once in 1,000
  }
}

TEST(Sampler, DependsOnSeedAndPositionAlone) {
  const std::vector<float> logits = {0, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f};
  GenerateConfig config = sampling();
  Sampler sampler(logits.size());
  std::vector<int32_t> forward, backward;
  for (uint64_t p = 0; p < 100; ++p) forward.push_back(*sampler.sample(logits, config, {}, p));
  GenerateConfig other = config;
  other.top_k = 3;
  for (uint64_t p = 100; p-- > 0;) {
    (void)sampler.sample(logits, other, {}, p);  // leaves nothing behind
    backward.push_back(*sampler.sample(logits, config, {}, p));
  }
  std::reverse(backward.begin(), backward.end());
  EXPECT_EQ(forward, backward);
  config.seed = 1;
  std::vector<int32_t> reseeded;
  for (uint64_t p = 0; p < 100; ++p) reseeded.push_back(*sampler.sample(logits, config, {}, p));
  EXPECT_NE(forward, reseeded);
}

TEST(Sampler, RowsWithoutAMeaningGiveNothing) {
  for (const float temperature : {0.0f, 1.0f}) {
    const auto sample = [&](const std::vector<float>& logits) {
      return Sampler(logits.size()).sample(logits, sampling(temperature), {}, 0);
    };
    EXPECT_EQ(sample({1, kNan, 2}), std::nullopt);
    EXPECT_EQ(sample({1, -kNan, 2}), std::nullopt);
    EXPECT_EQ(sample({1, kInfinity}), std::nullopt);
    EXPECT_EQ(sample({-kInfinity, -kInfinity}), std::nullopt);
    EXPECT_EQ(sample({-kInfinity, -1e30f}), 1);
  }
}

TEST(Sampler, MaskedTokensAreNeverChosen) {
  const std::vector<float> logits = {-kInfinity, 0, -kInfinity, 0};
  const auto observed = counts(logits, sampling(100), 1000);
  EXPECT_EQ(observed[0] + observed[2], 0);
}

TEST(Sampler, TinyTemperaturesDoNotDivideByZero) {
  EXPECT_EQ(pick({1, 2, -kInfinity}, sampling(1e-40f)), 1);
}

TEST(Sampler, AnotherRowWidthIsABug) {
  Sampler sampler(3);
  EXPECT_THROW((void)sampler.sample(std::vector<float>{1, 2}, {}, {}, 0), base::Failure);
}

TEST(PenaltyHistory, KnowsWhatItHasSeen) {
  PenaltyHistory history(100);
  for (const int32_t token : {0, 63, 64, 99, -1, 100000}) history.add(token);
  for (int32_t token = -2; token < 120; ++token) {
    EXPECT_EQ(history.contains(token), token == 0 || token == 63 || token == 64 || token == 99);
  }
  EXPECT_FALSE(PenaltyHistory().contains(0));
}

}  // namespace
}  // namespace tinyloop::engine
