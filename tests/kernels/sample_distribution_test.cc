// How often each token is chosen, against the probabilities of the definition: chi-square for every
// filter and penalty.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/sampling_math.h"
#include "tests/support/op_test.h"

namespace tinyloop::testing {
namespace {

using kernels::SampleTerms;
using kernels::ScoredToken;

const std::vector<float> kLogits = {0.0f, 1.0f, -1.0f, 2.0f, 0.5f, 0.0f, 1.5f, -2.0f, 0.25f};
constexpr int32_t kVocab = 9, kRows = 4000, kRuns = 20;
// What a chi-square of so many degrees of freedom exceeds once in 10,000 times.
constexpr double kRare[] = {0, 15.1, 18.4, 21.1, 23.5, 25.7, 27.9, 29.9, 31.8};

// Adjusted logits → probabilities, in doubles.
std::vector<double> probabilities(const std::vector<double>& x, const SampleTerms& terms) {
  std::vector<size_t> ids(x.size());
  std::iota(ids.begin(), ids.end(), size_t{0});
  std::stable_sort(ids.begin(), ids.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
  const auto weight = [&](size_t id) { return std::exp((x[id] - x[ids[0]]) / terms.temperature); };
  const auto total = [&] {
    double sum = 0;
    for (const size_t id : ids) sum += weight(id);
    return sum;
  };
  if (terms.top_k > 0) ids.resize(std::min(ids.size(), size_t(terms.top_k)));
  double running = 0;
  size_t kept = 0;
  for (const double share = terms.top_p * total(); kept < ids.size() && running < share; ++kept) {
    running += weight(ids[kept]);
  }
  ids.resize(kept);
  std::erase_if(ids, [&](size_t id) { return weight(id) < double{terms.min_p}; });
  std::vector<double> result(x.size());
  for (const size_t id : ids) result[id] = weight(id) / total();
  return result;
}

class SampleDistributionTest : public OpTest {
 protected:
  // `counted`: the counts that every row begins with; empty: none.
  std::vector<int> counts(const SampleTerms& terms, const std::vector<uint32_t>& counted) {
    std::vector<float> logits;
    for (int32_t r = 0; r < kRows; ++r) logits.insert(logits.end(), kLogits.begin(), kLogits.end());
    const DeviceArray<float> device(backend(), logits), adjusted(backend(), logits);
    const auto share = [&](size_t count) {
      return static_cast<ScoredToken*>(backend().memory().share(count * sizeof(ScoredToken)));
    };
    ScoredToken* const chosen = share(size_t{kRows});
    ScoredToken* const candidates = share(size_t{kRows} * kernels::kMostCandidates);
    std::vector<int> result(kLogits.size());
    for (int run = 0; run < kRuns; ++run) {
      std::vector<SampleTerms> rows(size_t{kRows}, terms);
      std::vector<uint32_t> lines;
      for (size_t r = 0; r < rows.size(); ++r) {
        lines.insert(lines.end(), counted.begin(), counted.end());
      }
      const DeviceArray<uint32_t> device_lines(backend(), lines);
      for (size_t r = 0; r < rows.size(); ++r) {
        if (!counted.empty()) rows[r].counts = device_lines.data() + r * counted.size();
        rows[r].seed = 11;
        rows[r].position = size_t(run) * size_t{kRows} + r;
      }
      const DeviceArray<SampleTerms> staged(backend(), rows);
      backend().sample(
          {device.data(), kRows, kVocab, staged.data(), adjusted.data(), chosen, candidates});
      backend().synchronise();
      for (int32_t r = 0; r < kRows; ++r) ++result[size_t(chosen[r].token)];
    }
    return result;
  }

  void expect_probabilities(const SampleTerms& terms, const std::vector<double>& adjusted,
                            const std::vector<uint32_t>& counted = {}) {
    const auto expected = probabilities(adjusted, terms);
    const auto observed = counts(terms, counted);
    double chi_square = 0;
    size_t possible = 0;
    for (size_t t = 0; t < observed.size(); ++t) {
      const double count = double{kRows} * kRuns * expected[t];
      if (count == 0) {
        EXPECT_EQ(observed[t], 0) << "token " << t;
        continue;
      }
      ++possible;
      chi_square += (observed[t] - count) * (observed[t] - count) / count;
    }
    ASSERT_GE(possible, 2u);
    EXPECT_LT(chi_square, kRare[possible - 1]);
  }

  void expect_probabilities(const SampleTerms& terms) {
    expect_probabilities(terms, {kLogits.begin(), kLogits.end()});
  }
};

TEST_P(SampleDistributionTest, Temperatures) {
  for (const float temperature : {0.7f, 1.0f, 1.6f}) {
    expect_probabilities({.temperature = temperature});
  }
}

TEST_P(SampleDistributionTest, Filters) {
  expect_probabilities({.top_k = 4, .temperature = 1.0f});
  expect_probabilities({.temperature = 0.8f, .top_p = 0.7f});
  expect_probabilities({.temperature = 1.0f, .min_p = 0.2f});
  expect_probabilities({.top_k = 6, .temperature = 1.2f, .top_p = 0.9f, .min_p = 0.1f});
}

TEST_P(SampleDistributionTest, Adjustments) {
  const std::vector<uint32_t> mask = {0b101111010u};
  const std::vector<uint32_t> counted = {
      0, kernels::kInPrompt, 2, kernels::kInPrompt | 1, 0, 0, 3, 0, 0};
  const std::vector<kernels::LogitBias> biases = {{7, 3.5f}, {3, -1.0f}};
  const DeviceArray<uint32_t> device_mask(backend(), mask);
  const DeviceArray<kernels::LogitBias> device_biases(backend(), biases);
  SampleTerms terms{.mask = device_mask.data(),
                    .biases = device_biases.data(),
                    .bias_count = 2,
                    .temperature = 1.0f};
  std::vector<double> x(kLogits.begin(), kLogits.end());
  x[7] += 3.5;
  x[3] -= 1;
  for (size_t t = 0; t < x.size(); ++t) {
    if ((mask[0] >> t & 1) == 0) x[t] = -HUGE_VAL;
  }
  expect_probabilities(terms, x);
  terms.repetition_penalty = 1.5f;
  terms.presence_penalty = 0.5f;
  terms.frequency_penalty = 0.25f;
  for (size_t t = 0; t < x.size(); ++t) {
    if (counted[t] == 0) continue;
    x[t] = x[t] > 0 ? x[t] / 1.5 : x[t] * 1.5;
    const double n = counted[t] & ~kernels::kInPrompt;
    if (n > 0) x[t] -= 0.5 + 0.25 * n;
  }
  expect_probabilities(terms, x, counted);
}

TINYLOOP_ON_EVERY_DEVICE(SampleDistributionTest);

}  // namespace
}  // namespace tinyloop::testing
