// Linear layers: every weight type against float64, and the same bits however rows are batched.
#include "kernels/linear.h"

#include <cmath>

#include "tests/support/op_test.h"

namespace tinyloop::testing {
namespace {

using kernels::WeightMatrix;
using kernels::WeightType;

constexpr WeightType kTypes[] = {WeightType::f32,  WeightType::f16,  WeightType::bf16,
                                 WeightType::q4_0, WeightType::q4_1, WeightType::q8_0};
constexpr int32_t kRowCounts[] = {1, 7, 8, 9, 63, 64, 65, 300};

class LinearTest : public OpTest {
 protected:
  // y[rows, out] of x[rows, in], both in `layout`.
  std::vector<float> run(kernels::Backend& on, const WeightMatrix& weights,
                         const std::vector<float>& x, RowLayout layout = RowLayout::dense) {
    const auto rows = int32_t(x.size() / size_t(weights.cols));
    const OpMatrix in(on, rows, weights.cols, layout, random(), x);
    const OpMatrix out(on, rows, weights.rows, layout, random());
    on.linear({weights, in.view(), out.view(), rows});
    EXPECT_TRUE(out.untouched());
    return out.values();
  }

  void check(WeightType type, int32_t rows, int32_t out, int32_t in, RowLayout layout) {
    SCOPED_TRACE(::testing::Message()
                 << weight_format(type).name << " " << out << "x" << in << ", rows " << rows);
    const OpWeights weights(backend(), type, out, in, random());
    const auto x = random().values(size_t(rows) * size_t(in));
    EXPECT_TRUE(near(run(backend(), weights.matrix(), x, layout),
                     reference_linear(weights.operands(), operands(backend(), x), rows, out, in),
                     tolerance().dot));
  }
};

TEST_P(LinearTest, MatchesTheReferenceForEveryTypeAndRowCount) {
  for (WeightType type : kTypes) {
    for (int32_t rows : kRowCounts) check(type, rows, 13, 96, RowLayout::dense);
    check(type, 9, 1, 32, RowLayout::scattered);
    check(type, 65, 70, 352, RowLayout::scattered);
  }
}

TEST_P(LinearTest, AnyWidthOfUnquantisedWeights) {
  for (WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16}) {
    for (int32_t in : {1, 2, 7, 8, 9, 33, 127}) {
      for (int32_t rows : {1, 3, 9, 64}) check(type, rows, 6, in, RowLayout::scattered);
    }
  }
}

TEST_P(LinearTest, RowsTooWideForTheDecodedTile) {
  check(WeightType::q4_1, 10, 5, 16384, RowLayout::dense);  // four outputs fit
  check(WeightType::q8_0, 10, 5, 32768, RowLayout::dense);  // two fit
  check(WeightType::q8_0, 10, 3, 65568, RowLayout::dense);  // none fits
}

TEST_P(LinearTest, DecodesLikeDequantiseRow) {
  constexpr int32_t kIn = 64, kOut = 5;
  std::vector<float> unit(size_t(kIn) * size_t(kIn), 0.0f);
  for (size_t k = 0; k < size_t(kIn); ++k) unit[k * size_t(kIn) + k] = 1.0f;
  for (WeightType type : kTypes) {
    SCOPED_TRACE(weight_format(type).name);
    const OpWeights weights(backend(), type, kOut, kIn, random());
    const std::vector<float> y = run(backend(), weights.matrix(), unit);
    for (int32_t o = 0; o < kOut; ++o) {
      std::vector<float> decoded(size_t(kIn), poison()), column;
      kernels::dequantise_row(weights.in_file(), o, decoded.data());
      for (size_t k = 0; k < size_t(kIn); ++k) column.push_back(y[k * size_t(kOut) + size_t(o)]);
      const auto multiplied = operands(backend(), decoded);
      EXPECT_EQ(multiplied, row_of(weights.operands(), o, kIn));  // a zero may have either sign
      EXPECT_EQ(multiplied, column);
    }
  }
}

TEST_P(LinearTest, ARowHasTheSameBitsInEveryBatch) {
  constexpr int32_t kRows = 67, kOut = 37, kIn = 288;
  for (WeightType type : kTypes) {
    SCOPED_TRACE(weight_format(type).name);
    const OpWeights weights(backend(), type, kOut, kIn, random());
    const auto x = random().values(size_t(kRows) * size_t(kIn));
    const auto all = run(backend(), weights.matrix(), x);
    EXPECT_TRUE(same_bits(all, run(backend(), weights.matrix(), x, RowLayout::scattered)));
    for (int32_t batch : {1, 2, 3, 4, 5, 8, 9, 66}) {
      const std::vector<float> part(x.end() - ptrdiff_t(batch) * kIn, x.end());
      const std::vector<float> want(all.end() - ptrdiff_t(batch) * kOut, all.end());
      EXPECT_TRUE(same_bits(want, run(backend(), weights.matrix(), part))) << "batch " << batch;
    }
  }
}

TEST_P(LinearTest, APermutedBatchGivesPermutedRows) {
  constexpr int32_t kRows = 30, kOut = 21, kIn = 64;
  const OpWeights weights(backend(), WeightType::q4_1, kOut, kIn, random());
  const auto x = random().values(size_t(kRows) * size_t(kIn));
  const auto order = random().distinct(kRows, kRows);
  std::vector<float> shuffled;
  for (int32_t row : order) {
    const auto values = row_of(x, row, kIn);
    shuffled.insert(shuffled.end(), values.begin(), values.end());
  }
  const auto y = run(backend(), weights.matrix(), x);
  const auto y_shuffled = run(backend(), weights.matrix(), shuffled);
  for (int32_t i = 0; i < kRows; ++i) {
    EXPECT_TRUE(same_bits(row_of(y, order[size_t(i)], kOut), row_of(y_shuffled, i, kOut)));
  }
}

TEST_P(LinearTest, ThreadsChangeNoBit) {
  if (is_cuda()) GTEST_SKIP() << "threads are the CPU's";
  const auto one = backend_with(1), four = backend_with(4);
  for (WeightType type : kTypes) {
    for (int32_t rows : {1, 6, 40}) {
      OpRandom same(kSeed);
      const auto x = same.values(size_t(rows) * 256);
      std::vector<std::vector<float>> results;
      for (kernels::Backend* on : {one.get(), &backend(), four.get()}) {
        OpRandom again(kSeed + 1);
        const OpWeights weights(*on, type, 515, 256, again);
        results.push_back(run(*on, weights.matrix(), x));
      }
      EXPECT_TRUE(same_bits(results[0], results[1]));
      EXPECT_TRUE(same_bits(results[0], results[2]));
    }
  }
}

TEST_P(LinearTest, LogitsAreCappedLinearOutputs) {
  constexpr int32_t kRows = 5, kVocab = 101, kIn = 64;
  const OpWeights head(backend(), WeightType::q8_0, kVocab, kIn, random());
  const auto x = random().values(size_t(kRows) * size_t(kIn), 4.0f);
  const OpMatrix in(backend(), kRows, kIn, RowLayout::scattered, random(), x);
  const Expected linear =
      reference_linear(head.operands(), operands(backend(), x), kRows, kVocab, kIn);
  for (float cap : {0.0f, 15.0f}) {
    const DeviceArray<float> logits(backend(),
                                    std::vector<float>(size_t(kRows) * size_t(kVocab), poison()));
    backend().logits({head.matrix(), in.view(), logits.data(), kRows, cap});
    backend().synchronise();
    if (cap == 0.0f) {
      EXPECT_TRUE(near(logits.read(), linear, tolerance().dot));
      EXPECT_TRUE(same_bits(logits.read(), run(backend(), head.matrix(), x)));
    } else {
      EXPECT_TRUE(near(logits.read(), reference_softcap(linear, cap), tolerance().softcap));
    }
  }
}

TEST_P(LinearTest, EmbeddingsAreScaledRows) {
  constexpr int32_t kVocab = 11, kCols = 96;
  const std::vector<int32_t> tokens = {10, 0, 3, 3, 7};
  const DeviceArray<int32_t> ids(backend(), tokens);
  for (WeightType type : kTypes) {
    const OpWeights table(backend(), type, kVocab, kCols, random());
    for (float scale : {1.0f, 22.5f}) {
      const auto rows = int32_t(tokens.size());
      const OpMatrix y(backend(), rows, kCols, RowLayout::scattered, random());
      backend().embed({table.matrix(), ids.data(), rows, scale, y.view()});
      Expected want;
      for (int32_t token : tokens) {
        for (float v : row_of(table.values(), token, kCols)) {
          want.add(double(v) * double(scale), std::abs(double(v) * double(scale)));
        }
      }
      EXPECT_TRUE(
          near(y.values(), want, scale == 1.0f ? tolerance().exact : tolerance().elementwise));
      EXPECT_TRUE(y.untouched());
    }
  }
}

TINYLOOP_ON_EVERY_DEVICE(LinearTest);

}  // namespace
}  // namespace tinyloop::testing
