// Products on the tensor cores: which kernel runs depends on the number of rows and outputs, what
// it gives does not. Rows here are exact in FP16, so that FP16 and FP32 views hold the same
// numbers.
#include <cmath>
#include <functional>

#include "tests/support/op_test.h"

namespace tinyloop::testing {
namespace {

using kernels::FfnType;
using kernels::LinearArgs;
using kernels::RowView;
using kernels::ScalarType;
using kernels::WeightType;

constexpr WeightType kTypes[] = {WeightType::q4_0, WeightType::q4_1, WeightType::q8_0,
                                 WeightType::f16,  WeightType::f32,  WeightType::bf16};
constexpr int32_t kCols[] = {32, 64, 96, 512, 832, 1408, 6656};
constexpr int32_t kOutputs[] = {1, 15, 16, 17, 64, 130, 300};
// Around the borders of 8, 16, 32, 64 and 128 rows, where other kernels take over.
constexpr int32_t kRowCounts[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 300};
constexpr int32_t kMostRows = 300;
constexpr int32_t kReferenceRows = 20;  // all others are held to these bits, float64 is slow

// A step of the tensor cores adds 16 products to a running sum and cuts each addend at about 2^-24
// of the largest. The running sums of n random products grow as sqrt(n), their magnitude as n: in s
// steps the error is about 17 · 2^-24 · 0.22 · sqrt(s) of the magnitude, 2.2e-7 · sqrt(s). Four
// times that, for the largest of many outputs; a sum counts its own group of k alone.
double tolerance_of(int32_t cols) {
  const int32_t steps_of_a_group = 4 * (((cols + 63) / 64 + 7) / 8);
  return 1e-6 * std::sqrt(double(steps_of_a_group));
}

// Random rows x[kMostRows][in], in each form that the ops take.
struct TestRows {
  TestRows(kernels::Backend& backend, int32_t in, OpRandom& random)
      : cols(in),
        values(operands(backend, random.values(size_t(kMostRows) * size_t(in)))),
        plain(backend, kMostRows, in, RowLayout::dense, random, values, ScalarType::f16),
        scattered(backend, kMostRows, in, RowLayout::scattered, random, values, ScalarType::f16),
        wide(backend, kMostRows, in, RowLayout::scattered, random, values, ScalarType::f32) {}

  int32_t cols;
  std::vector<float> values;
  OpMatrix plain, scattered, wide;
};

// The activation of two dot products, each with its own error.
Expected activation_reference(FfnType type, const Expected& gate, const Expected& up) {
  Expected want;
  for (size_t i = 0; i < up.value.size(); ++i) {
    const double u = up.value[i], g = gate.value[i];
    if (type == FfnType::relu2) {
      const double positive = std::max(u, 0.0);
      // (p + e)² − p² = 2pe + e², and e is less than 1e-5 of the magnitude.
      want.add(positive * positive, (2.0 * positive + 1e-5 * up.magnitude[i]) * up.magnitude[i]);
    } else {
      const double silu = g / (1.0 + std::exp(-g));
      want.add(silu * u, 1.1 * gate.magnitude[i] * std::abs(u) +  // silu is at most 1.1 steep
                             std::abs(silu) * up.magnitude[i] + std::abs(silu * u));
    }
  }
  return want;
}

class CudaLinearTest : public OpTest {
 protected:
  std::vector<float> exact_rows(int32_t rows, int32_t cols) {
    return operands(backend(), random().values(size_t(rows) * size_t(cols)));
  }
  OpMatrix matrix(int32_t rows, int32_t cols, RowLayout layout, ScalarType type,
                  const std::vector<float>& values = {}) {
    return {backend(), rows, cols, layout, random(), values, type};
  }

  // An op on the first `rows` rows of x, whose results go to y.
  using Op = std::function<void(const RowView& x, const RowView& y, int32_t rows)>;

  // What `op` gives for each row of x alone. y: what its outputs hold before; empty: poison.
  std::vector<float> each_alone(const Op& op, const TestRows& x, int32_t out,
                                const std::vector<float>& y = {}) {
    const OpMatrix result = matrix(kMostRows, out, RowLayout::scattered, ScalarType::f32, y);
    for (int32_t r = 0; r < kMostRows; ++r) {
      op(x.plain.view().from_row(r), result.view().from_row(r), 1);
    }
    EXPECT_TRUE(result.untouched());
    return result.values();
  }

  // Batches of every size have the bits of `alone`, whatever the form of the rows.
  void expect_batches(const Op& op, const TestRows& x, int32_t out, const std::vector<float>& alone,
                      const std::vector<float>& y = {}) {
    const OpMatrix* forms[] = {&x.plain, &x.scattered, &x.wide};
    size_t form = 0;
    for (int32_t rows : kRowCounts) {
      const auto part = [&](const std::vector<float>& of) {
        return std::vector<float>(of.begin(), of.begin() + ptrdiff_t(rows) * out);
      };
      const OpMatrix result = matrix(rows, out, rows % 2 ? RowLayout::dense : RowLayout::scattered,
                                     ScalarType::f32, y.empty() ? y : part(y));
      op(forms[form]->view(), result.view(), rows);
      EXPECT_TRUE(same_bits(part(alone), result.values())) << rows << " rows, form " << form;
      EXPECT_TRUE(result.untouched());
      form = (form + 1) % std::size(forms);
    }
  }

  void check_linear(const TestRows& x, WeightType type, int32_t out) {
    SCOPED_TRACE(::testing::Message() << weight_format(type).name << " " << out << "x" << x.cols);
    const OpWeights weights(backend(), type, out, x.cols, random());
    const Op linear = [&](const RowView& from, const RowView& to, int32_t rows) {
      backend().linear({weights.matrix(), from, to, rows});
    };
    const auto alone = each_alone(linear, x, out);
    EXPECT_TRUE(near(first_rows(alone, out), linear_reference(weights, x), tolerance_of(x.cols)));
    expect_batches(linear, x, out, alone);
  }
  void check_hidden(const TestRows& x, WeightType type, int32_t out) {
    const OpWeights gate(backend(), type, out, x.cols, random());
    const OpWeights up(backend(), type, out, x.cols, random());
    for (auto ffn : {FfnType::swiglu, FfnType::relu2}) {
      const bool gated = ffn == FfnType::swiglu;
      SCOPED_TRACE(::testing::Message() << weight_format(type).name << " " << out << "x" << x.cols
                                        << (gated ? " swiglu" : " relu2"));
      const Op hidden = [&](const RowView& from, const RowView& to, int32_t rows) {
        backend().ffn_hidden(
            {ffn, gated ? gate.matrix() : kernels::WeightMatrix{}, up.matrix(), from, to, rows});
      };
      const auto alone = each_alone(hidden, x, out);
      EXPECT_TRUE(
          near(first_rows(alone, out),
               activation_reference(ffn, linear_reference(gate, x), linear_reference(up, x)),
               tolerance_of(x.cols)));
      expect_batches(hidden, x, out, alone);
    }
  }

  static std::vector<float> first_rows(const std::vector<float>& values, int32_t cols) {
    return {values.begin(), values.begin() + ptrdiff_t(kReferenceRows) * cols};
  }
  static Expected linear_reference(const OpWeights& weights, const TestRows& x) {
    return reference_linear(weights.operands(), first_rows(x.values, x.cols), kReferenceRows,
                            weights.matrix().rows, x.cols);
  }
};

TEST_P(CudaLinearTest, EveryShapeAgreesWithTheReferenceAndWithItsRowsAlone) {
  for (int32_t in : kCols) {
    const TestRows x(backend(), in, random());
    for (WeightType type : kTypes) {
      for (int32_t out : kOutputs) check_linear(x, type, out);
    }
  }
}

// So many outputs that k need not be split to keep the device busy, and that a block takes several
// tiles of them one after another.
TEST_P(CudaLinearTest, ManyOutputs) {
  const TestRows few(backend(), 320, random()), many(backend(), 1088, random());
  for (WeightType type : {WeightType::q4_0, WeightType::q4_1, WeightType::q8_0, WeightType::f16}) {
    check_linear(few, type, 12700);
    check_linear(many, type, 4300);
  }
  check_linear(many, WeightType::q4_1, 12700);
}

// Rows that do not fit into the shared memory of a block: of sixteen, then of eight.
TEST_P(CudaLinearTest, LongRows) {
  for (int32_t in : {10240, 16384}) {
    const TestRows x(backend(), in, random());
    for (WeightType type : {WeightType::q4_1, WeightType::f16}) check_linear(x, type, 40);
  }
}

// Sixteen rows beside which two sets of warps do not fit on compute capability 9.0
// (tests/kernels/narrow_shape_test.cc), with more outputs than one unit of work for each block.
TEST_P(CudaLinearTest, OneSetOfWarpsForManyOutputs) {
  check_hidden(TestRows(backend(), 4096, random()), WeightType::f16, 2600);
}

TEST_P(CudaLinearTest, BranchesAreAddedToWhatIsThere) {
  for (int32_t in : {96, 512, 1408}) {
    const TestRows x(backend(), in, random());
    for (WeightType type : kTypes) {
      for (int32_t out : {17, 130, 300}) {
        SCOPED_TRACE(::testing::Message() << weight_format(type).name << " " << out << "x" << in);
        const OpWeights weights(backend(), type, out, in, random());
        const auto y = random().values(size_t(kMostRows) * size_t(out), 3.0f);
        const Op add = [&](const RowView& from, const RowView& to, int32_t rows) {
          backend().linear_add({weights.matrix(), from, to, rows}, {});
        };
        const auto alone = each_alone(add, x, out, y);
        Expected want = linear_reference(weights, x);
        for (size_t i = 0; i < want.value.size(); ++i) {
          want.value[i] += double(y[i]);
          want.magnitude[i] += std::abs(double(y[i]));
        }
        EXPECT_TRUE(near(first_rows(alone, out), want, tolerance_of(in)));
        expect_batches(add, x, out, alone, y);
      }
    }
  }
}

TEST_P(CudaLinearTest, HiddenVectorsAgreeWithTheReferenceAndWithTheirRowsAlone) {
  for (int32_t in : {96, 512, 832}) {
    const TestRows x(backend(), in, random());
    for (WeightType type : kTypes) {
      for (int32_t out : {15, 64, 130, 300}) check_hidden(x, type, out);
    }
  }
  check_hidden(TestRows(backend(), 320, random()), WeightType::q4_1, 6400);
}

// Layers of one call that one launch takes together, and such as it cannot: other types, other
// rows.
TEST_P(CudaLinearTest, SeveralLayersInOneCall) {
  constexpr int32_t kIn = 192;
  const OpWeights weights[] = {OpWeights(backend(), WeightType::q4_1, 130, kIn, random()),
                               OpWeights(backend(), WeightType::q4_1, 40, kIn, random()),
                               OpWeights(backend(), WeightType::q4_1, 7, kIn, random()),
                               OpWeights(backend(), WeightType::q4_1, 16, kIn, random()),
                               OpWeights(backend(), WeightType::q8_0, 33, kIn, random()),
                               OpWeights(backend(), WeightType::f32, 20, kIn, random()),
                               OpWeights(backend(), WeightType::bf16, 129, kIn, random())};
  for (int32_t rows : {1, 8, 16, 17, 64, 200}) {
    const OpMatrix x =
        matrix(rows, kIn, RowLayout::scattered, ScalarType::f16, exact_rows(rows, kIn));
    const OpMatrix other =
        matrix(rows, kIn, RowLayout::dense, ScalarType::f32, exact_rows(rows, kIn));
    std::vector<OpMatrix> got, want;
    std::vector<LinearArgs> layers;
    for (const OpWeights& w : weights) {
      const OpMatrix& from = w.matrix().rows == 7 ? other : x;
      got.push_back(matrix(rows, w.matrix().rows, RowLayout::scattered, ScalarType::f32));
      want.push_back(matrix(rows, w.matrix().rows, RowLayout::dense, ScalarType::f32));
      layers.push_back({w.matrix(), from.view(), got.back().view(), rows});
      backend().linear({w.matrix(), from.view(), want.back().view(), rows});
    }
    layers.push_back({weights[0].matrix(), x.view(), got[0].view(), 0});
    backend().linear_all(layers);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(same_bits(want[i].values(), got[i].values())) << "layer " << i << ", " << rows;
      EXPECT_TRUE(got[i].untouched());
    }
  }
}

// Results in FP16 are the FP32 results rounded to the nearest.
TEST_P(CudaLinearTest, ResultsInFp16AreRoundedOnce) {
  constexpr int32_t kIn = 96, kOut = 70;
  const OpWeights weights(backend(), WeightType::q4_0, kOut, kIn, random());
  for (int32_t rows : {1, 16, 17, 200}) {
    const OpMatrix x = matrix(rows, kIn, RowLayout::dense, ScalarType::f16, exact_rows(rows, kIn));
    const OpMatrix wide = matrix(rows, kOut, RowLayout::dense, ScalarType::f32);
    const OpMatrix half = matrix(rows, kOut, RowLayout::scattered, ScalarType::f16);
    backend().linear({weights.matrix(), x.view(), wide.view(), rows});
    backend().linear({weights.matrix(), x.view(), half.view(), rows});
    EXPECT_TRUE(same_bits(operands(backend(), wide.values()), half.values()));
    EXPECT_TRUE(half.untouched());
  }
}

// FP16 ends at 65,504: what is larger is cut to it, and that it was is counted.
TEST_P(CudaLinearTest, NumbersBeyondFp16AreCutAndCounted) {
  constexpr int32_t kIn = 64, kOut = 20;
  const OpWeights weights(backend(), WeightType::f16, kOut, kIn, random());
  for (int32_t rows : {1, 40}) {
    auto x = exact_rows(rows, kIn);
    x[3] = 1e9f;
    x[17] = -HUGE_VALF;
    const OpMatrix large = matrix(rows, kIn, RowLayout::dense, ScalarType::f32, x);
    const OpMatrix cut =
        matrix(rows, kIn, RowLayout::dense, ScalarType::f32, operands(backend(), x));
    const OpMatrix y = matrix(rows, kOut, RowLayout::dense, ScalarType::f32);
    const OpMatrix want = matrix(rows, kOut, RowLayout::dense, ScalarType::f32);
    backend().linear({weights.matrix(), cut.view(), want.view(), rows});
    backend().synchronise();
    const uint64_t before = backend().saturated();
    backend().linear({weights.matrix(), large.view(), y.view(), rows});
    EXPECT_TRUE(same_bits(want.values(), y.values()));
    EXPECT_GT(backend().saturated(), before);

    const OpMatrix half = matrix(rows, kOut, RowLayout::dense, ScalarType::f16);
    const OpMatrix ones =
        matrix(1, kIn, RowLayout::dense, ScalarType::f32, std::vector<float>(kIn, 1e5f));
    backend().linear({weights.matrix(), ones.view(), half.view(), 1});
    for (float value : row_of(half.values(), 0, kOut)) EXPECT_LE(std::abs(value), 65504.0f);
  }
}

TEST_P(CudaLinearTest, NaNStaysInItsRow) {
  constexpr int32_t kIn = 96, kOut = 40;
  for (WeightType type : kTypes) {
    const OpWeights weights(backend(), type, kOut, kIn, random());
    for (int32_t rows : {2, 16, 40, 200}) {
      auto x = exact_rows(rows, kIn);
      const OpMatrix clean = matrix(rows, kIn, RowLayout::dense, ScalarType::f16, x);
      x[size_t(kIn) + 70] = poison();
      const OpMatrix bad = matrix(rows, kIn, RowLayout::dense, ScalarType::f16, x);
      const OpMatrix want = matrix(rows, kOut, RowLayout::dense, ScalarType::f32);
      const OpMatrix y = matrix(rows, kOut, RowLayout::dense, ScalarType::f32);
      backend().linear({weights.matrix(), clean.view(), want.view(), rows});
      backend().linear({weights.matrix(), bad.view(), y.view(), rows});
      const auto values = y.values(), want_values = want.values();
      for (int32_t r = 0; r < rows; ++r) {
        const auto got = row_of(values, r, kOut);
        if (r == 1) {
          for (float value : got) EXPECT_TRUE(std::isnan(value));
        } else {
          EXPECT_TRUE(same_bits(row_of(want_values, r, kOut), got)) << "row " << r;
        }
      }
    }
  }
}

TINYLOOP_ON_CUDA(CudaLinearTest);

}  // namespace
}  // namespace tinyloop::testing
