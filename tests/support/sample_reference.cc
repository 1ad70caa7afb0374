#include "tests/support/sample_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/sampling_math.h"

namespace tinyloop::testing {

using namespace kernels;

namespace {

std::vector<size_t> sorted(const std::vector<float>& values) {
  std::vector<size_t> ids(values.size());
  std::iota(ids.begin(), ids.end(), size_t{0});
  std::stable_sort(ids.begin(), ids.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  return ids;
}

std::vector<float> adjusted(std::vector<float> x, const SampleCase& row) {
  for (const LogitBias& bias : row.biases) {
    float& logit = x[size_t(bias.token)];
    if (std::isfinite(logit)) logit = saturated(logit + bias.bias);
  }
  const SampleTerms& terms = row.terms;
  for (size_t t = 0; t < x.size(); ++t) {
    if (!row.mask.empty() && (row.mask[t / 32] >> (t % 32) & 1) == 0) x[t] = -HUGE_VALF;
    if (row.counts.empty() || !std::isfinite(x[t])) continue;
    x[t] = penalised(x[t], row.counts[t],
                     {terms.repetition_penalty, terms.presence_penalty, terms.frequency_penalty});
  }
  return x;
}

int32_t drawn(const std::vector<float>& x, const SampleTerms& terms) {
  std::vector<size_t> ids = sorted(x);
  const float greatest = x[ids[0]];
  const auto scaled = [&](size_t id) { return (x[id] - greatest) / terms.temperature; };
  std::erase_if(ids, [&](size_t id) { return x[id] == -HUGE_VALF; });
  if (terms.top_k > 0) ids.resize(std::min(ids.size(), size_t(terms.top_k)));
  if (terms.top_p < 1.0f) {
    uint64_t total = 0, running = 0;
    for (const size_t id : ids) total += weight_of(scaled(id));
    size_t kept = 0;
    while (running < share_of(total, terms.top_p)) running += weight_of(scaled(ids[kept++]));
    ids.resize(kept);
  }
  if (terms.min_p > 0.0f) {
    std::erase_if(ids, [&](size_t id) { return scaled(id) < least_scaled_of(terms.min_p); });
  }
  std::sort(ids.begin(), ids.end());
  size_t best = ids[0];
  float most = -HUGE_VALF;
  for (const size_t id : ids) {
    const auto words = noise_words(terms.seed, terms.position, uint32_t(id) / kNoiseTokens);
    const float value = scaled(id) + gumbel(words[id % kNoiseTokens]);
    if (value <= most) continue;
    most = value;
    best = id;
  }
  return int32_t(best);
}

}  // namespace

SampleOutcome expected_sample(const std::vector<float>& logits, const SampleCase& row) {
  const SampleTerms& terms = row.terms;
  SampleOutcome outcome{.token = kNoToken, .counts = row.counts};
  const auto unusable = [](float logit) { return std::isnan(logit) || logit == HUGE_VALF; };
  const auto ids = sorted(logits);
  if (std::any_of(logits.begin(), logits.end(), unusable) || logits[ids[0]] == -HUGE_VALF) {
    return outcome;
  }
  const float greatest = logits[ids[0]];
  uint64_t sum = 0;
  for (const float logit : logits) sum += weight_of(logit - greatest);
  const auto logprob = [&](size_t id) {
    return std::bit_cast<uint32_t>(logprob_of(logits[id], greatest, log_of_weights(sum)));
  };
  for (size_t i = 0; i < std::min(ids.size(), size_t(std::max(terms.candidates, 0))); ++i) {
    outcome.candidates.emplace_back(int32_t(ids[i]), logprob(ids[i]));
  }
  outcome.token = terms.target;
  if (terms.target == kNoToken) {
    const auto x = adjusted(logits, row);
    const size_t first = sorted(x)[0];
    if (x[first] == -HUGE_VALF) {
      outcome.token = kAllMasked;
      return outcome;
    }
    outcome.token = terms.temperature == 0.0f ? int32_t(first) : drawn(x, terms);
    if (!outcome.counts.empty()) ++outcome.counts[size_t(outcome.token)];
  }
  if (terms.wants_logprobs()) outcome.logprob = logprob(size_t(outcome.token));
  return outcome;
}

}  // namespace tinyloop::testing
