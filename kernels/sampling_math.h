// The numbers behind a choice among tokens, each as one fixed sequence of single operations: any
// device that rounds as IEEE 754 says, and neither contracts nor reorders, gets the same bits.
// Devices compile these functions themselves; nothing here calls a library.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "base/philox.h"

namespace tinyloop::kernels {

inline constexpr float kLeastLogit = -std::numeric_limits<float>::infinity();

// ---- Order --------------------------------------------------------------------------------------

// Ascends as values do; 0 and -0 are one. Not for NaN.
constexpr uint32_t order_key(float value) {
  const auto bits = std::bit_cast<uint32_t>(value + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
constexpr float value_of_key(uint32_t key) {
  return std::bit_cast<float>(key & 0x80000000u ? key & 0x7FFFFFFFu : ~key);
}

// A token's place in the order of choice, the greatest first: by value descending, then by id
// ascending.
constexpr uint64_t rank_of(float value, uint32_t id) {
  return uint64_t{order_key(value)} << 32 | uint32_t{~id};
}
// The least rank of any token, and of one whose logit is finite.
inline constexpr uint64_t kWholeRow = uint64_t{order_key(kLeastLogit)} << 32;
inline constexpr uint64_t kFiniteOnes = uint64_t{order_key(-std::numeric_limits<float>::max())}
                                        << 32;
constexpr int32_t token_of_rank(uint64_t rank) {
  return static_cast<int32_t>(~static_cast<uint32_t>(rank));
}
constexpr float value_of_rank(uint64_t rank) {
  return value_of_key(static_cast<uint32_t>(rank >> 32));
}

// ---- Exponential and logarithm ------------------------------------------------------------------

// e^x for x <= 0, within 2 units in the last place; exactly 1 at 0, and 0 below −80. The
// polynomial's coefficients are a least-squares fit of (e^r − 1 − r) / r² on |r| <= ½ ln 2,
// weighted towards equal relative errors.
constexpr float exp_of_negative(float x) {
  constexpr float kLog2E = 1.44269504f, kRound = 12582912.0f;  // 1.5 · 2^23: rounds to integers
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  if (!(x >= -80.0f)) return 0.0f;
  const float n = (x * kLog2E + kRound) - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 0.0013814612f;
  p = p * r + 0.008368712f;
  p = p * r + 0.04166839f;
  p = p * r + 0.16666521f;
  p = p * r + 0.49999994f;
  p = p * (r * r) + r + 1.0f;
  return p * std::bit_cast<float>(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23);
}

// ln(1 + f) for f in [√½ − 1, √2 − 1], with a small relative error also near 0. Fitted as above.
constexpr float log_near_one(float f) {
  float p = -0.076344065f;
  p = p * f + 0.12761544f;
  p = p * f - 0.131602f;
  p = p * f + 0.14201763f;
  p = p * f - 0.16623355f;
  p = p * f + 0.20001227f;
  p = p * f - 0.25000823f;
  p = p * f + 0.3333333f;
  const float square = f * f;
  return f - (square * 0.5f - square * f * p);
}

// ln x for normal x > 0.
constexpr float log_of(float x) {
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr uint32_t kRootHalf = 0x3F3504F3u;  // √½
  const uint32_t bits = std::bit_cast<uint32_t>(x) - kRootHalf;
  const auto n = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const float m = std::bit_cast<float>((bits & 0x007FFFFFu) + kRootHalf);  // [√½, √2)
  return log_near_one(m - 1.0f) + n * kLn2Low + n * kLn2High;
}

// ln x for normal x > 0, in double: by the series of the inverse hyperbolic tangent.
constexpr double precise_log(double x) {
  constexpr uint64_t kRootHalf = 0x3FE6A09E667F3BCDu;
  const uint64_t bits = std::bit_cast<uint64_t>(x) - kRootHalf;
  const auto n = static_cast<double>(static_cast<int64_t>(bits) >> 52);
  const double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFu) + kRootHalf);
  const double t = (m - 1.0) / (m + 1.0), square = t * t;  // square below 0.03
  double sum = 0.0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return n * 0.693147180559945309 + 2.0 * t * sum;
}

// ---- Weights ------------------------------------------------------------------------------------

// Weights are added as integers, so that the order of addition does not matter: e^x for x <= 0 in
// units of 2^-40. Those of kMostVocab tokens stay below 2^62.
inline constexpr int32_t kMostVocab = 1 << 22;
constexpr uint64_t in_units(float exponential) {
  return static_cast<uint64_t>(exponential * 0x1p40f);
}
constexpr uint64_t weight_of(float x) {
  return in_units(exp_of_negative(x));
}

// How much of `total` < 2^62 the shortest beginning has to reach that holds a share p in (0, 1).
constexpr uint64_t share_of(uint64_t total, float p) {
  const auto share = static_cast<uint64_t>(static_cast<double>(p) * 0x1p32);
  const uint64_t part = (total >> 32) * share + (((total & 0xFFFFFFFFu) * share) >> 32);
  return part > 0 ? part : 1;
}

// ln Σ e^(z − greatest), of a sum of weight_of.
constexpr double log_of_weights(uint64_t sum) {
  return precise_log(static_cast<double>(sum) * 0x1p-40);
}

// The least scaled logit that min_p in [0, 1) leaves.
constexpr float least_scaled_of(float min_p) {
  return min_p > 0.0f ? static_cast<float>(precise_log(static_cast<double>(min_p))) : kLeastLogit;
}

constexpr float logprob_of(float logit, float greatest, double log_sum) {
  return static_cast<float>(static_cast<double>(logit) - static_cast<double>(greatest) - log_sum);
}

// ---- Noise --------------------------------------------------------------------------------------

// Gumbel noise −ln(−ln u) of u = (word + ½) / 2^32, from −3.2 to 22.9: always finite. Near 1, where
// floats are too coarse for u, it is computed from 1 − u.
constexpr float gumbel(uint32_t word) {
  const float rest = (static_cast<float>(~word) + 0.5f) * 0x1p-32f;
  const float e =
      rest <= 0.25f ? -log_near_one(-rest) : -log_of((static_cast<float>(word) + 0.5f) * 0x1p-32f);
  return -log_of(e);
}
// At least gumbel(word), cheaply: −ln u >= 1 − u, and 1 − u is at least half the power of two that
// the leading zeros of its digits tell.
constexpr float gumbel_bound(uint32_t word) {
  return 0.6932f * static_cast<float>(std::countl_zero(~word) + 1) + 0.001f;
}
inline constexpr float kMostGumbel = 22.9f;

// Four tokens share a block of random words: those of ids 4·block …
inline constexpr uint32_t kNoiseTokens = 4;
constexpr base::PhiloxBlock noise_words(uint64_t seed, uint64_t position, uint32_t block) {
  return base::philox(seed, base::RandomDomain::sampling, position, block);
}

// ---- Adjustments --------------------------------------------------------------------------------

// What is finite stays finite.
constexpr float saturated(float value) {
  constexpr float kMost = std::numeric_limits<float>::max();
  return value > kMost ? kMost : value < -kMost ? -kMost : value;
}

// Of a token's count (kernels/count_tokens.h).
inline constexpr uint32_t kInPrompt = 0x80000000u;

struct Penalties {
  float repetition, presence, frequency;
};

// The penalties of a finite logit whose token has the given count. Source of the repetition
// penalty: Keskar et al., "CTRL: a conditional transformer language model", 2019, section 4.1; of
// the other two: the parameters of OpenAI's completion interface.
constexpr float penalised(float logit, uint32_t count, const Penalties& penalties) {
  if (count == 0) return logit;
  float x = saturated(logit > 0.0f ? logit / penalties.repetition : logit * penalties.repetition);
  const uint32_t in_output = count & ~kInPrompt;
  if (in_output == 0) return x;
  return saturated(x - (penalties.frequency * static_cast<float>(in_output) + penalties.presence));
}

}  // namespace tinyloop::kernels
