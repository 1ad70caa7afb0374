#include "kernels/sample.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/sampling_math.h"
#include "tests/support/op_test.h"
#include "tests/support/sample_reference.h"

namespace tinyloop::testing {
namespace {

using kernels::kAllMasked;
using kernels::kMostCandidates;
using kernels::kNoToken;
using kernels::SampleTerms;
using kernels::ScoredToken;

constexpr float kMost = 3.4028235e38f;

using Rows = std::vector<std::vector<float>>;

class SampleTest : public OpTest {
 protected:
  // All rows in one launch.
  std::vector<SampleOutcome> run(const Rows& logits, const std::vector<SampleCase>& cases) {
    const size_t rows = logits.size(), vocab = logits[0].size();
    std::vector<float> dense;
    for (const auto& row : logits) dense.insert(dense.end(), row.begin(), row.end());
    const DeviceArray<float> device(backend(), dense), adjusted(backend(), dense);
    std::vector<DeviceArray<uint32_t>> masks, counts;
    std::vector<DeviceArray<kernels::LogitBias>> biases;
    std::vector<SampleTerms> terms;
    bool adjusts = false;
    for (const SampleCase& row : cases) {
      terms.push_back(row.terms);
      SampleTerms& t = terms.back();
      masks.emplace_back(backend(), row.mask.empty() ? std::vector<uint32_t>(1) : row.mask);
      counts.emplace_back(backend(), row.counts.empty() ? std::vector<uint32_t>(1) : row.counts);
      biases.emplace_back(backend(),
                          row.biases.empty() ? std::vector<kernels::LogitBias>(1) : row.biases);
      if (!row.mask.empty()) t.mask = masks.back().data();
      if (!row.counts.empty()) t.counts = counts.back().data();
      if (!row.biases.empty()) t.biases = biases.back().data();
      t.bias_count = int32_t(row.biases.size());
      adjusts |= t.adjusts();
    }
    const DeviceArray<SampleTerms> device_terms(backend(), terms);
    const auto share = [&](size_t count) {
      return static_cast<ScoredToken*>(backend().memory().share(count * sizeof(ScoredToken)));
    };
    ScoredToken* const chosen = share(rows);
    ScoredToken* const candidates = share(rows * kMostCandidates);
    backend().sample({.logits = device.data(),
                      .rows = int32_t(rows),
                      .vocab = int32_t(vocab),
                      .terms = device_terms.data(),
                      .adjusted = adjusts ? adjusted.data() : nullptr,
                      .chosen = chosen,
                      .candidates = candidates});
    backend().synchronise();
    EXPECT_TRUE(same_bits(device.read(), dense));
    std::vector<SampleOutcome> outcomes;
    for (size_t r = 0; r < rows; ++r) {
      SampleOutcome outcome{chosen[r].token, std::bit_cast<uint32_t>(chosen[r].logprob)};
      const int32_t wanted = std::clamp(cases[r].terms.candidates, 0, int32_t(vocab));
      for (int32_t i = 0; i < wanted && outcome.token != kNoToken; ++i) {
        const ScoredToken& candidate = candidates[r * kMostCandidates + size_t(i)];
        outcome.candidates.emplace_back(candidate.token,
                                        std::bit_cast<uint32_t>(candidate.logprob));
      }
      if (!cases[r].counts.empty()) outcome.counts = counts[r].read();
      outcomes.push_back(std::move(outcome));
    }
    return outcomes;
  }

  int32_t pick(const std::vector<float>& logits, const SampleTerms& terms = {}) {
    return run({logits}, {{terms}})[0].token;
  }

  size_t below(size_t bound) { return size_t(random().below(int32_t(bound))); }
  bool one_in(size_t n) { return below(n) == 0; }

  // Random logits of a kind: spread out or narrow, with equal ones, with tokens that can not be
  // chosen.
  std::vector<float> draw_logits(size_t vocab) {
    std::vector<float> logits = random().values(vocab, one_in(2) ? 20.0f : 1.0f);
    const size_t kind = below(4);
    for (float& z : logits) {
      if (kind == 0) z = std::round(z);
      if (kind == 1 && one_in(8)) z = -HUGE_VALF;
      if (kind == 2) z = 1.25f;
    }
    logits[below(vocab)] = 0.5f;
    return logits;
  }

  SampleCase draw_case(size_t vocab) {
    SampleCase row;
    SampleTerms& t = row.terms;
    t.seed = below(1u << 30);
    t.position = below(1u << 20);
    if (one_in(3)) t.candidates = int32_t(below(kMostCandidates + 1));
    if (one_in(12)) t.target = int32_t(below(vocab));
    if (!one_in(5)) t.temperature = 0.05f + 0.01f * float(below(200));
    if (one_in(2)) t.top_k = int32_t(below(std::min<size_t>(vocab, 200) + 3));
    if (one_in(2)) t.top_p = 0.001f + 0.999f * float(below(1000)) / 1000;
    if (one_in(3)) t.min_p = 0.5f * float(below(1000)) / 1000;
    if (one_in(3)) {
      t.repetition_penalty = 0.5f + float(below(100)) / 100;
      t.presence_penalty = float(below(9)) / 2 - 2;
      t.frequency_penalty = float(below(9)) / 2 - 2;
      row.counts.resize(vocab);
      for (uint32_t& count : row.counts) {
        if (one_in(5)) count = uint32_t(below(4)) | (one_in(2) ? kernels::kInPrompt : 0);
      }
    }
    if (one_in(4)) {
      row.mask.resize(kernels::mask_words(int32_t(vocab)));
      for (uint32_t& word : row.mask) word = uint32_t(below(1 << 16) << 16 | below(1 << 16));
    }
    if (one_in(4)) {
      for (size_t t0 = below(5); t0 < vocab && row.biases.size() < 300; t0 += 1 + below(40)) {
        row.biases.push_back({int32_t(t0), float(below(41)) - 20});
      }
    }
    return row;
  }
};

TEST_P(SampleTest, EqualsTheDefinitionWhateverIsBesideIt) {
  for (const size_t vocab : {1, 2, 3, 5, 33, 257, 1000, 4099, 50'000}) {
    for (const size_t rows : {1, 3, 17, 40, 70, 140}) {
      if (vocab * rows > 2'000'000) continue;
      Rows logits;
      std::vector<SampleCase> cases;
      for (size_t r = 0; r < rows; ++r) {
        logits.push_back(draw_logits(vocab));
        cases.push_back(draw_case(vocab));
      }
      if (rows == 17) logits[3][vocab / 2] = poison();
      const auto got = run(logits, cases);
      for (size_t r = 0; r < rows; ++r) {
        EXPECT_EQ(got[r], expected_sample(logits[r], cases[r]))
            << "row " << r << " of " << rows << ", vocab " << vocab;
      }
      if (rows != 40) continue;
      for (size_t r = 0; r < rows; r += 7) {
        EXPECT_EQ(run({logits[r]}, {cases[r]})[0], got[r]) << "row " << r << " alone";
      }
    }
  }
}

TEST_P(SampleTest, GreedyTakesTheGreatestAndOfEqualsTheSmallestId) {
  constexpr size_t kVocab = 9000;
  for (const float greatest : {3.5f, 0.0f, -2.0f}) {
    for (const size_t first : {0, 1, 255, 1124, 1125, 4096, 8998}) {
      std::vector<float> logits(kVocab, greatest - 1.0f);
      logits[first] = logits[kVocab - 1] = greatest;
      EXPECT_EQ(pick(logits), int32_t(first));
    }
  }
  EXPECT_EQ(pick({-1.0f, -0.0f, 0.0f}), 1);
  EXPECT_EQ(pick({-1.0f, 0.0f, -0.0f}), 1);
  EXPECT_EQ(pick({-kMost, -HUGE_VALF, -HUGE_VALF}), 0);
  EXPECT_EQ(pick({1.0f, kMost, 2.0f}), 1);
  EXPECT_EQ(pick({0.0f, -1e-45f, 1e-45f}), 2);
}

TEST_P(SampleTest, RowsWithoutAMeaningGiveNoToken) {
  constexpr size_t kVocab = 5000;
  for (const float temperature : {0.0f, 1.0f}) {
    const SampleTerms terms{.candidates = 3, .temperature = temperature};
    for (const float bad : {poison(), -poison(), HUGE_VALF}) {
      for (const size_t place : {0, 77, 4999}) {
        Rows logits(3, draw_logits(kVocab));
        logits[1][place] = bad;
        const auto got = run(logits, {{terms}, {terms}, {terms}});
        EXPECT_GE(got[0].token, 0);
        EXPECT_EQ(got[1].token, kNoToken) << bad << " at " << place;
        EXPECT_EQ(got[2], got[0]);
      }
    }
    EXPECT_EQ(pick(std::vector<float>(kVocab, -HUGE_VALF), terms), kNoToken);
    EXPECT_EQ(pick({-HUGE_VALF, -1e30f}, terms), 1);
  }
}

TEST_P(SampleTest, WhereTheMaskLeavesNothingItSaysSo) {
  const std::vector<float> logits = {1.0f, 2.0f, -HUGE_VALF};
  for (const float temperature : {0.0f, 1.0f}) {
    const SampleTerms terms{.temperature = temperature};
    EXPECT_EQ(run({logits}, {{terms, {0u}}})[0].token, kAllMasked);
    EXPECT_EQ(run({logits}, {{terms, {4u}}})[0].token, kAllMasked);  // the one that it allows: −inf
    EXPECT_EQ(run({logits}, {{terms, {5u}}})[0].token, 0);
    EXPECT_EQ(run({logits}, {{terms, {6u}, {}, {{2, 100.0f}}}})[0].token, 1);
  }
}

TEST_P(SampleTest, ExtremesStayFinite) {
  EXPECT_EQ(pick({1, 2, -HUGE_VALF}, {.temperature = 1e-40f}), 1);
  EXPECT_EQ(pick({-kMost, kMost}, {.temperature = 1e-40f, .top_p = 0.5f}), 1);
  SampleCase biased{{}, {}, {}, {{0, kMost}, {1, -kMost}}};
  EXPECT_EQ(run({{kMost, -kMost, 0}}, {biased})[0].token, 0);
  biased.terms.temperature = kMost;
  EXPECT_GE(run({{kMost, -kMost, 0}}, {biased})[0].token, 0);
  EXPECT_EQ(pick(std::vector<float>(70'000, 1.0f), {.top_k = 1, .temperature = 1.0f}), 0);
}

TEST_P(SampleTest, ManyEqualTokensAreCutById) {
  std::vector<float> logits(100'000, 0.0f);
  for (const int32_t top_k : {1, 31, 2048, 2049, 65'537}) {
    Rows rows(4, logits);
    std::vector<SampleCase> cases(4);
    for (size_t r = 0; r < rows.size(); ++r) {
      cases[r].terms = {.position = r, .candidates = 7, .top_k = top_k, .temperature = 1.0f};
    }
    const auto got = run(rows, cases);
    for (size_t r = 0; r < rows.size(); ++r) {
      EXPECT_LT(got[r].token, top_k);
      EXPECT_EQ(got[r], expected_sample(logits, cases[r]));
    }
  }
}

TEST_P(SampleTest, CountsOfTokens) {
  const std::vector<int32_t> tokens = {5, 3, 5, 0, 3, 3, 99};
  for (const int32_t prompt : {0, 4, 7}) {
    const DeviceArray<int32_t> device(backend(), tokens);
    const DeviceArray<uint32_t> counts(backend(), std::vector<uint32_t>(100, 0xABCDu));
    backend().count_tokens({counts.data(), 100, device.data(), prompt, int32_t(tokens.size())});
    backend().synchronise();
    std::vector<uint32_t> want(100);
    for (int32_t i = 0; i < int32_t(tokens.size()); ++i) {
      uint32_t& count = want[size_t(tokens[size_t(i)])];
      if (i < prompt) {
        count |= kernels::kInPrompt;
      } else {
        ++count;
      }
    }
    EXPECT_EQ(counts.read(), want);
  }
}

TEST_P(SampleTest, NoRowsIsNothingToDo) {
  backend().sample({});
  backend().synchronise();
}

TINYLOOP_ON_EVERY_DEVICE(SampleTest);

}  // namespace
}  // namespace tinyloop::testing
