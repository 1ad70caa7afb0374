// Philox4x32-10 against the vectors of its authors' library, and the distributions made of it.
#include "base/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>

namespace tinyloop::base {
namespace {

struct KnownAnswer {
  PhiloxBlock counter;
  std::array<uint32_t, 2> key;
  PhiloxBlock expected;
};

// Source: Random123 (Salmon, Moraes, Dror, Shaw), the kat_vectors file, lines "philox4x32 10".
constexpr uint32_t kOnes = 0xffffffff;
const KnownAnswer kKnownAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{kOnes, kOnes, kOnes, kOnes},
     {kOnes, kOnes},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

constexpr uint64_t kKey = 42;
PhiloxBlock draw(uint64_t index, uint32_t sub = 0) {
  return philox(kKey, RandomDomain::test, index, sub);
}

TEST(Philox, MatchesThePublishedVectors) {
  for (const KnownAnswer& known : kKnownAnswers) {
    const uint64_t key = uint64_t{known.key[1]} << 32 | known.key[0];
    EXPECT_EQ(philox(key, known.counter), known.expected);
  }
}

TEST(Philox, DomainFormFillsTheCounter) {
  const uint64_t index = 0x1122334455667788;
  EXPECT_EQ(philox(kKey, RandomDomain::sampling, index, 9),
            philox(kKey, PhiloxBlock{0x55667788, 0x11223344, 9, 1}));
  EXPECT_EQ(philox(kKey, RandomDomain::initial_state, index, 9),
            philox(kKey, PhiloxBlock{0x55667788, 0x11223344, 9, 2}));
}

TEST(Philox, NoTwoDrawsAreTheSame) {
  std::set<PhiloxBlock> seen;
  for (const RandomDomain domain :
       {RandomDomain::sampling, RandomDomain::initial_state, RandomDomain::test}) {
    for (uint64_t key = 0; key < 4; ++key) {
      for (uint64_t index = 0; index < 50; ++index) {
        for (uint32_t sub = 0; sub < 10; ++sub) {
          EXPECT_TRUE(seen.insert(philox(key, domain, index, sub)).second);
        }
      }
    }
  }
}

TEST(UniformDouble, CoversTheHalfOpenUnitInterval) {
  EXPECT_EQ(uniform_double(0, 0), 0.0);
  EXPECT_EQ(uniform_double(0x80000000u, 0), 0.5);
  EXPECT_EQ(uniform_double(kOnes, kOnes), 1.0 - 0x1p-53);
  EXPECT_EQ(uniform_double(0, 1u << 11), 0x1p-53);
  EXPECT_EQ(uniform_double(0, (1u << 11) - 1), 0.0);
}

// 64 equal bins of 64,000 draws: the chi-squared statistic has 63 degrees of freedom, mean 63,
// standard deviation 11.2; the bounds are five of those to either side.
TEST(UniformDouble, FillsBinsEvenly) {
  constexpr int kBins = 64, kDraws = 64000;
  std::array<int, kBins> bins{};
  for (uint64_t i = 0; i < kDraws / 2; ++i) {
    const PhiloxBlock words = draw(i);
    ++bins[size_t(uniform_double(words[0], words[1]) * kBins)];
    ++bins[size_t(uniform_double(words[2], words[3]) * kBins)];
  }
  double statistic = 0;
  for (const int count : bins) statistic += std::pow(count - kDraws / kBins, 2) / (kDraws / kBins);
  EXPECT_GT(statistic, 63 - 56);
  EXPECT_LT(statistic, 63 + 56);
}

// Means of 200,000 draws; every bound is five standard errors wide.
TEST(NormalPair, HasTheMomentsOfTheNormalDistribution) {
  constexpr int kPairs = 100000;
  const double error = 1.0 / std::sqrt(2.0 * kPairs);
  double sum = 0, square = 0, cube = 0, fourth = 0, product = 0;
  int within_one = 0;
  for (uint64_t i = 0; i < kPairs; ++i) {
    const auto pair = normal_pair(draw(i, 1));
    product += double(pair[0]) * pair[1];
    for (const double x : pair) {
      sum += x;
      square += x * x;
      cube += x * x * x;
      fourth += x * x * x * x;
      within_one += std::abs(x) < 1.0 ? 1 : 0;
    }
  }
  const double count = 2.0 * kPairs;
  EXPECT_NEAR(sum / count, 0.0, 5 * error);
  EXPECT_NEAR(square / count, 1.0, 5 * error * std::sqrt(2.0));
  EXPECT_NEAR(cube / count, 0.0, 5 * error * std::sqrt(15.0));
  EXPECT_NEAR(fourth / count, 3.0, 5 * error * std::sqrt(96.0));
  EXPECT_NEAR(within_one / count, 0.682689, 5 * error * 0.4655);
  EXPECT_NEAR(product / kPairs, 0.0, 5 / std::sqrt(double(kPairs)));
}

TEST(NormalPair, ExtremeWordsStayFinite) {
  for (const uint32_t word : {0u, 1u, 0x7fffffffu, 0x80000000u, kOnes}) {
    for (const float value : normal_pair({word, word, word, word})) {
      EXPECT_TRUE(std::isfinite(value)) << word;
    }
  }
  EXPECT_EQ(normal_pair({0, 0, 0, 0})[0], 0.0f);
  EXPECT_LT(std::abs(normal_pair({kOnes, kOnes, 0, 0})[0]), 8.6f);  // sqrt(2 · 53 · ln 2)
}

}  // namespace
}  // namespace tinyloop::base
