#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/philox.h"
#include "kernels/most_likely.h"

namespace tinyloop::engine {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// An order-reversing map of floats to integers: a > b <=> key(a) < key(b), and 0 and -0 are one.
uint32_t descending_key(float value) {
  const auto bits = std::bit_cast<uint32_t>(value + 0.0f);
  return bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
}

float value_of(uint32_t key) {
  return std::bit_cast<float>(key & 0x80000000u ? key : ~key & 0x7FFFFFFFu);
}

// A finite logit stays finite, however small or large the penalty.
float penalise(float logit, float penalty) {
  if (logit == -kInfinity) return logit;
  const double z = logit, p = penalty;
  constexpr double kMax = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(z > 0 ? z / p : z * p, -kMax, kMax));
}

}  // namespace

Sampler::Sampler(size_t vocab)
    : vocab_(vocab), candidates_(vocab), scratch_(vocab), weights_(vocab) {
  TINYLOOP_CHECK(vocab >= 1);
}

std::optional<int32_t> Sampler::sample(std::span<const float> logits, const GenerateConfig& config,
                                       const PenaltyHistory& history, uint64_t position) {
  TINYLOOP_CHECK(logits.size() == vocab_);
  if (takes_most_likely(config)) {
    const int32_t token = kernels::most_likely_token(logits);
    return token == kernels::kNoToken ? std::nullopt : std::optional(token);
  }
  if (!collect(logits, config.repetition_penalty, history)) return std::nullopt;
  const bool greedy = config.temperature == 0.0f;
  order(greedy ? 1 : static_cast<size_t>(config.top_k));
  if (value_of(candidates_[0].key) == -kInfinity) return std::nullopt;
  if (greedy) return candidates_[0].id;

  weigh(config.temperature);
  const size_t count = kept_by_min_p(config.min_p, kept_by_top_p(config.top_p));
  const auto words = base::philox(config.seed, base::RandomDomain::sampling, position, 0);
  return candidates_[draw(base::uniform_double(words[0], words[1]), count)].id;
}

// All tokens with their penalised logits, in order of id. False: a logit is NaN or +inf.
bool Sampler::collect(std::span<const float> logits, float penalty, const PenaltyHistory& history) {
  candidates_.resize(logits.size());
  bool usable = true;
  for (size_t i = 0; i < logits.size(); ++i) {
    usable &= logits[i] < kInfinity;  // false for NaN, too
    candidates_[i] = {descending_key(logits[i]), static_cast<int32_t>(i)};
  }
  if (penalty == 1.0f || !usable) return usable;
  for (Candidate& candidate : candidates_) {
    if (!history.contains(candidate.id)) continue;
    candidate.key = descending_key(penalise(logits[static_cast<size_t>(candidate.id)], penalty));
  }
  return true;
}

// Sorts the candidates and keeps the first top_k (0: all). The order is strict, so every way of
// sorting gives the same result.
void Sampler::order(size_t top_k) {
  constexpr size_t kSelectShare = 16;  // beyond 1/16 of the row a full radix sort is faster
  const auto before = [](const Candidate& a, const Candidate& b) {
    return std::tie(a.key, a.id) < std::tie(b.key, b.id);
  };
  const size_t count = top_k == 0 ? candidates_.size() : std::min(top_k, candidates_.size());
  if (count == 1) {
    std::swap(candidates_[0], *std::min_element(candidates_.begin(), candidates_.end(), before));
  } else if (count <= candidates_.size() / kSelectShare) {
    const auto middle = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
    std::partial_sort(candidates_.begin(), middle, candidates_.end(), before);
  } else {
    radix_sort();
  }
  candidates_.resize(count);
}

// Least significant digit first; each pass is stable, so equal keys stay in order of id.
void Sampler::radix_sort() {
  constexpr unsigned kDigitBits = 11;
  constexpr size_t kDigits = size_t{1} << kDigitBits;
  scratch_.resize(candidates_.size());
  for (unsigned shift = 0; shift < 32; shift += kDigitBits) {
    std::array<uint32_t, kDigits> next{};
    const auto digit = [shift](const Candidate& c) { return (c.key >> shift) & (kDigits - 1); };
    for (const Candidate& candidate : candidates_) ++next[digit(candidate)];
    uint32_t begin = 0;
    for (uint32_t& entry : next) begin += std::exchange(entry, begin);
    for (const Candidate& candidate : candidates_) scratch_[next[digit(candidate)]++] = candidate;
    candidates_.swap(scratch_);
  }
}

void Sampler::weigh(float temperature) {
  const double largest = value_of(candidates_[0].key);
  weights_.resize(candidates_.size());
  for (size_t i = 0; i < candidates_.size(); ++i) {
    weights_[i] = std::exp((value_of(candidates_[i].key) - largest) / temperature);
  }
}

size_t Sampler::kept_by_top_p(float top_p) const {
  if (top_p >= 1.0f) return weights_.size();
  double total = 0, running = 0;
  for (const double weight : weights_) total += weight;
  for (size_t i = 0; i < weights_.size(); ++i) {
    running += weights_[i];
    if (running >= top_p * total) return i + 1;
  }
  return weights_.size();
}

size_t Sampler::kept_by_min_p(float min_p, size_t count) const {
  if (min_p <= 0.0f) return count;
  const double least = min_p * weights_[0];
  while (count > 1 && weights_[count - 1] < least) --count;
  return count;
}

// Rounding can leave the running sum at u · total for the last tokens: then it is the last one
// that has a weight.
size_t Sampler::draw(double u, size_t count) const {
  double total = 0, running = 0;
  for (size_t i = 0; i < count; ++i) total += weights_[i];
  for (size_t i = 0; i < count; ++i) {
    running += weights_[i];
    if (running > u * total) return i;
  }
  while (count > 1 && weights_[count - 1] == 0.0) --count;
  return count - 1;
}

}  // namespace tinyloop::engine
