#include "kernels/most_likely.h"

#include <algorithm>
#include <cmath>

#include "tests/support/op_test.h"

namespace tinyloop::testing {
namespace {

using kernels::kNoToken;

class MostLikelyTest : public OpTest {
 protected:
  std::vector<int32_t> run(const std::vector<float>& logits, int32_t vocab) {
    const auto rows = int32_t(logits.size() / size_t(vocab));
    const DeviceArray<float> device(backend(), logits);
    auto* tokens = static_cast<int32_t*>(backend().memory().share(size_t(rows) * sizeof(int32_t)));
    std::fill_n(tokens, rows, -7);
    backend().most_likely({device.data(), rows, vocab, tokens});
    backend().synchronise();
    return {tokens, tokens + rows};
  }
};

TEST_P(MostLikelyTest, TheGreatestOfEachRow) {
  for (int32_t vocab : {1, 2, 31, 300, 4096, 4097, 50000}) {
    for (int32_t rows : {1, 3, 64}) {
      const auto logits = random().values(size_t(rows) * size_t(vocab), 20.0f);
      const auto got = run(logits, vocab);
      for (int32_t r = 0; r < rows; ++r) {
        const auto row = row_of(logits, r, vocab);
        EXPECT_EQ(got[size_t(r)], std::max_element(row.begin(), row.end()) - row.begin())
            << "row " << r << " of " << rows << ", vocab " << vocab;
        EXPECT_EQ(got[size_t(r)], kernels::most_likely_token(row));
      }
    }
  }
}

TEST_P(MostLikelyTest, TheSmallestIdAmongEquals) {
  constexpr int32_t kVocab = 9000;
  for (float greatest : {3.5f, 0.0f, -2.0f}) {
    for (int32_t first : {0, 1, 255, 4095, 4096, 8998}) {
      std::vector<float> logits(kVocab, greatest - 1.0f);
      logits[size_t(first)] = logits[kVocab - 1] = greatest;
      EXPECT_EQ(run(logits, kVocab)[0], first);
    }
  }
  EXPECT_EQ(run({-1.0f, -0.0f, 0.0f}, 3)[0], 1);
  EXPECT_EQ(run({-1.0f, 0.0f, -0.0f}, 3)[0], 1);
}

TEST_P(MostLikelyTest, ExtremesAreNumbersLikeOthers) {
  constexpr float kMost = 3.4028235e38f, kLeast = 1e-45f;
  EXPECT_EQ(run({-kMost, -HUGE_VALF, -HUGE_VALF}, 3)[0], 0);
  EXPECT_EQ(run({1.0f, kMost, 2.0f}, 3)[0], 1);
  EXPECT_EQ(run({0.0f, -kLeast, kLeast}, 3)[0], 2);
}

TEST_P(MostLikelyTest, RowsWithoutAMeaningGiveNoToken) {
  constexpr int32_t kVocab = 5000;
  for (float bad : {poison(), -poison(), HUGE_VALF}) {
    for (int32_t place : {0, 77, 4999}) {
      auto logits = random().values(3 * kVocab);
      logits[size_t(kVocab + place)] = bad;
      const auto got = run(logits, kVocab);
      EXPECT_NE(got[0], kNoToken);
      EXPECT_EQ(got[1], kNoToken) << bad << " at " << place;
      EXPECT_NE(got[2], kNoToken);
    }
  }
  EXPECT_EQ(run(std::vector<float>(kVocab, -HUGE_VALF), kVocab)[0], kNoToken);
}

TEST_P(MostLikelyTest, NoRowsIsNothingToDo) {
  backend().most_likely({nullptr, 0, 10, nullptr});
  backend().synchronise();
}

TINYLOOP_ON_EVERY_DEVICE(MostLikelyTest);

}  // namespace
}  // namespace tinyloop::testing
