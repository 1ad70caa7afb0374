// The fast mode: copies of matrices in FP16, and products of many rows by cuBLAS.
#include "tests/kernels/cuda_fast.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "tests/support/quantise.h"

namespace tinyloop::testing {
namespace {

using kernels::FfnType;
using kernels::RowView;
using kernels::ScalarType;
using kernels::WeightMatrix;
using kernels::WeightType;

constexpr WeightType kTypes[] = {WeightType::q4_0, WeightType::q4_1, WeightType::q8_0,
                                 WeightType::f16,  WeightType::f32,  WeightType::bf16};
// Products of more rows than 128 are the library's.
constexpr int32_t kOwnRows[] = {1, 127, 128};
constexpr int32_t kManyRows[] = {129, 300, 513};
constexpr int32_t kMostRows = 513;

bool is_quantised(WeightType type) {
  return kernels::weight_format(type).block_values > 1;
}

class CudaFastTest : public CudaFastOpTest {
 protected:
  static std::vector<float> first(const std::vector<float>& values, int32_t rows, int32_t cols) {
    return {values.begin(), values.begin() + ptrdiff_t(rows) * cols};
  }
  static Expected first(const Expected& all, int32_t rows, int32_t cols) {
    const auto count = ptrdiff_t(rows) * cols;
    return {{all.value.begin(), all.value.begin() + count},
            {all.magnitude.begin(), all.magnitude.begin() + count}};
  }

  // An op with a matrix or two on rows of x, whose results go to y.
  using Op = std::function<void(bool copied, const RowView& x, const RowView& y, int32_t rows)>;

  struct Case {
    int32_t in, out;
    double tolerance;
    Expected want;              // for kMostRows rows
    std::vector<float> before;  // what y holds; empty: poison
  };

  // Every form of x and y, at every number of rows.
  void check(const Op& op, const Case& c, const std::vector<float>& x_values) {
    const OpMatrix forms[] = {
        matrix(kMostRows, c.in, RowLayout::dense, ScalarType::f16, x_values),
        matrix(kMostRows, c.in, RowLayout::scattered, ScalarType::f16, x_values),
        matrix(kMostRows, c.in, RowLayout::scattered, ScalarType::f32, x_values)};
    const auto y_of = [&](int32_t rows, RowLayout layout) {
      const auto before = c.before.empty() ? c.before : first(c.before, rows, c.out);
      return matrix(rows, c.out, layout, ScalarType::f32, before);
    };
    for (const OpMatrix& x : forms) {
      for (RowLayout layout : {RowLayout::dense, RowLayout::scattered}) {
        const auto trace = [&](int32_t rows) {
          return ::testing::Message() << rows << " rows, form " << &x - forms
                                      << (layout == RowLayout::dense ? ", dense" : ", scattered");
        };
        for (int32_t rows : kManyRows) {
          SCOPED_TRACE(trace(rows));
          const OpMatrix y = y_of(rows, layout);
          op(true, x.view(), y.view(), rows);
          EXPECT_TRUE(near(y.values(), first(c.want, rows, c.out), c.tolerance));
          EXPECT_TRUE(y.untouched());
        }
        for (int32_t rows : kOwnRows) {
          SCOPED_TRACE(trace(rows));
          const OpMatrix y = y_of(rows, layout), own = y_of(rows, layout);
          op(true, x.view(), y.view(), rows);
          op(false, x.view(), own.view(), rows);
          EXPECT_TRUE(same_bits(own.values(), y.values()));
        }
      }
    }
  }

  static std::vector<int32_t> widths(WeightType type) {
    // The last two are no whole number of 16 bytes.
    return is_quantised(type) ? std::vector<int32_t>{96, 576} : std::vector<int32_t>{64, 100, 33};
  }
};

TEST_P(CudaFastTest, CopiesHoldWhatProductsRead) {
  for (WeightType type : kTypes) {
    for (int32_t in : widths(type)) {
      for (int32_t out : {1, 15, 16, 17, 130}) {
        SCOPED_TRACE(::testing::Message() << weight_format(type).name << " " << out << "x" << in);
        const FastWeights weights(backend(), type, out, in, random());
        const auto copy = weights.copy(backend());
        const int32_t pitch = kernels::fp16_pitch(in);
        ASSERT_EQ(copy.size(), size_t(out) * size_t(pitch));
        for (int32_t o = 0; o < out; ++o) {
          for (int32_t k = 0; k < pitch; ++k) {
            const float want =
                k < in ? weights.operands()[size_t(o) * size_t(in) + size_t(k)] : 0.0f;
            ASSERT_EQ(from_half(copy[size_t(o) * size_t(pitch) + size_t(k)]), want)
                << "output " << o << ", k " << k;
          }
        }
      }
    }
  }
}

TEST_P(CudaFastTest, LinearLayersAgreeWithTheReference) {
  for (WeightType type : kTypes) {
    for (int32_t in : widths(type)) {
      const auto x = exact_rows(kMostRows, in);
      for (int32_t out : {1, 15, 130, 301}) {
        SCOPED_TRACE(::testing::Message() << weight_format(type).name << " " << out << "x" << in);
        const FastWeights weights(backend(), type, out, in, random());
        const Op linear = [&](bool copied, const RowView& from, const RowView& to, int32_t rows) {
          backend().linear({copied ? weights.copied() : weights.tiled(), from, to, rows});
        };
        check(linear,
              {in,
               out,
               tolerance().dot,
               reference_linear(weights.operands(), x, kMostRows, out, in),
               {}},
              x);
      }
    }
  }
}

TEST_P(CudaFastTest, BranchesAreAddedToWhatIsThere) {
  for (WeightType type : kTypes) {
    for (int32_t out : {15, 64, 301}) {
      const int32_t in = widths(type).back();
      SCOPED_TRACE(::testing::Message() << weight_format(type).name << " " << out << "x" << in);
      const FastWeights weights(backend(), type, out, in, random());
      const auto x = exact_rows(kMostRows, in);
      const auto y = random().values(size_t(kMostRows) * size_t(out), 3.0f);
      Expected want = reference_linear(weights.operands(), x, kMostRows, out, in);
      for (size_t i = 0; i < want.value.size(); ++i) {
        want.value[i] += double(y[i]);
        want.magnitude[i] += std::abs(double(y[i]));
      }
      const Op add = [&](bool copied, const RowView& from, const RowView& to, int32_t rows) {
        backend().linear_add({copied ? weights.copied() : weights.tiled(), from, to, rows}, {});
      };
      check(add, {in, out, tolerance().dot, want, y}, x);
    }
  }
}

// The activation of two dot products, each with its own error; silu is at most 1.1 steep.
Expected activation_reference(FfnType type, const Expected& gate, const Expected& up) {
  Expected want;
  for (size_t i = 0; i < up.value.size(); ++i) {
    const double u = up.value[i], g = gate.value[i], positive = std::max(u, 0.0);
    const double silu = g / (1.0 + std::exp(-g));
    if (type == FfnType::relu2) {
      want.add(positive * positive, (2.0 * positive + 1e-5 * up.magnitude[i]) * up.magnitude[i]);
    } else {
      want.add(silu * u, 1.1 * gate.magnitude[i] * std::abs(u) + std::abs(silu) * up.magnitude[i] +
                             std::abs(silu * u));
    }
  }
  return want;
}

TEST_P(CudaFastTest, HiddenVectorsAgreeWithTheReference) {
  for (WeightType type : kTypes) {
    for (int32_t out : {15, 130, 301}) {
      const int32_t in = widths(type)[1];
      const FastWeights gate(backend(), type, out, in, random());
      const FastWeights up(backend(), type, out, in, random());
      const auto x = exact_rows(kMostRows, in);
      const Expected gates = reference_linear(gate.operands(), x, kMostRows, out, in);
      const Expected ups = reference_linear(up.operands(), x, kMostRows, out, in);
      for (auto ffn : {FfnType::swiglu, FfnType::relu2}) {
        SCOPED_TRACE(::testing::Message() << weight_format(type).name << " " << out << "x" << in
                                          << (ffn == FfnType::swiglu ? " swiglu" : " relu2"));
        const Op hidden = [&](bool copied, const RowView& from, const RowView& to, int32_t rows) {
          WeightMatrix g = copied ? gate.copied() : gate.tiled();
          if (ffn == FfnType::relu2) g = {};
          backend().ffn_hidden({ffn, g, copied ? up.copied() : up.tiled(), from, to, rows});
        };
        check(hidden, {in, out, tolerance().dot, activation_reference(ffn, gates, ups), {}}, x);
      }
    }
  }
}

// Sums wait for their end in a work space of 32 MiB, and some of them for the next round.
TEST_P(CudaFastTest, MoreSumsThanTheWorkSpaceHolds) {
  constexpr int32_t kIn = 96, kOut = 20001;
  const FastWeights weights(backend(), WeightType::q4_1, kOut, kIn, random());
  const auto values = exact_rows(kMostRows, kIn);
  const OpMatrix x = matrix(kMostRows, kIn, RowLayout::scattered, ScalarType::f32, values);
  const OpMatrix y = matrix(kMostRows, kOut, RowLayout::scattered, ScalarType::f32);
  const OpMatrix tiled = matrix(kMostRows, kOut, RowLayout::dense, ScalarType::f32);
  backend().linear({weights.copied(), x.view(), y.view(), kMostRows});
  backend().linear({weights.tiled(), x.view(), tiled.view(), kMostRows});
  const auto got = y.values(), want = tiled.values();
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5 * kIn) << i;
  EXPECT_TRUE(y.untouched());
}

// Copies one behind the other are one matrix to the library; others are not.
TEST_P(CudaFastTest, SeveralLayersInOneCall) {
  constexpr int32_t kIn = 192, kRows = 200;
  constexpr int32_t kOut[] = {130, 40, 7};
  const auto values = exact_rows(kRows, kIn);
  const OpMatrix x = matrix(kRows, kIn, RowLayout::dense, ScalarType::f16, values);
  std::vector<OpWeights> weights;
  size_t bytes = 0;
  for (int32_t out : kOut) {
    weights.emplace_back(backend(), WeightType::q4_1, out, kIn, random());
    bytes += kernels::fp16_copy_bytes(out, kIn);
  }
  const size_t gap = 256;
  const kernels::DeviceBuffer copies(backend().memory(), bytes + gap,
                                     kernels::MemoryUse::fp16_weight_cache);
  for (bool apart : {false, true}) {
    std::byte* to = copies.data();
    std::vector<WeightMatrix> copied;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (apart && i == 1) to += gap;
      copied.push_back(weights[i].matrix());
      copied.back().fp16 = to;
      backend().fp16_copy({copied.back(), to});
      to += kernels::fp16_copy_bytes(kOut[i], kIn);
    }
    for (RowLayout layout : {RowLayout::dense, RowLayout::scattered}) {
      std::vector<OpMatrix> y;
      std::vector<kernels::LinearArgs> layers;
      for (int32_t out : kOut) y.push_back(matrix(kRows, out, layout, ScalarType::f32));
      for (size_t i = 0; i < y.size(); ++i) {
        layers.push_back({copied[i], x.view(), y[i].view(), kRows});
      }
      backend().linear_all(layers);
      for (size_t i = 0; i < y.size(); ++i) {
        const Expected want = reference_linear(weights[i].operands(), values, kRows, kOut[i], kIn);
        EXPECT_TRUE(near(y[i].values(), want, tolerance().dot)) << "layer " << i;
        EXPECT_TRUE(y[i].untouched());
      }
    }
  }
}

// Lines of the residual buffer that follow one another are dense rows, for which one call does; the
// library must not see any others so.
TEST_P(CudaFastTest, RowsBehindAStagedIndex) {
  constexpr int32_t kIn = 96, kOut = 40, kRows = 300, kLines = 310;
  const FastWeights weights(backend(), WeightType::q4_1, kOut, kIn, random());
  const auto values = exact_rows(kRows, kIn);
  const OpMatrix x = matrix(kRows, kIn, RowLayout::dense, ScalarType::f16, values);
  const auto before = random().values(size_t(kLines) * kOut, 3.0f);
  std::vector<int32_t> in_order(kRows), swapped;
  std::iota(in_order.begin(), in_order.end(), 7);
  swapped = in_order;
  std::swap(swapped[130], swapped[131]);
  for (const auto& lines : {in_order, swapped}) {
    const OpMatrix y = matrix(kLines, kOut, RowLayout::dense, ScalarType::f32, before);
    backend().synchronise();
    backend().memory().begin_step();
    RowView view = y.view();
    view.index = static_cast<const int32_t*>(
        backend().memory().stage(lines.data(), lines.size() * sizeof(int32_t)));
    const uint64_t launches = backend().host_launches();
    backend().linear_add({weights.copied(), x.view(), view, kRows}, {});
    backend().synchronise();
    EXPECT_EQ(backend().host_launches() - launches == 1, lines == in_order);
    const auto got = y.values();
    const Expected sums = reference_linear(weights.operands(), values, kRows, kOut, kIn);
    Expected want;
    for (int32_t line = 0; line < kLines; ++line) {
      const auto row = std::find(lines.begin(), lines.end(), line) - lines.begin();
      for (size_t c = 0; c < size_t{kOut}; ++c) {
        const double old = double(before[size_t(line) * kOut + c]);
        const size_t at = size_t(row) * kOut + c;
        row == kRows ? want.add(old, 0.0)
                     : want.add(old + sums.value[at], std::abs(old) + sums.magnitude[at]);
      }
    }
    EXPECT_TRUE(near(got, want, tolerance().dot));
  }
}

// FP16 ends at 65,504: what is larger is cut to it, and that it was is counted.
TEST_P(CudaFastTest, NumbersBeyondFp16AreCutAndCounted) {
  constexpr int32_t kIn = 64, kOut = 21, kRows = 200;
  const FastWeights weights(backend(), WeightType::f16, kOut, kIn, random());
  const OpMatrix x = matrix(kRows, kIn, RowLayout::dense, ScalarType::f16,
                            std::vector<float>(size_t(kRows) * kIn, 60000.0f));
  const OpMatrix y = matrix(kRows, kOut, RowLayout::dense, ScalarType::f16);
  const uint64_t before = backend().saturated();
  backend().linear({weights.copied(), x.view(), y.view(), kRows});
  for (float value : y.values()) ASSERT_LE(std::abs(value), 65504.0f);
  EXPECT_GT(backend().saturated(), before);
}

TEST_P(CudaFastTest, NaNStaysInItsRow) {
  constexpr int32_t kIn = 96, kOut = 40, kRows = 200;
  const FastWeights weights(backend(), WeightType::q4_1, kOut, kIn, random());
  auto values = exact_rows(kRows, kIn);
  values[size_t(kIn) + 70] = poison();
  for (ScalarType type : {ScalarType::f16, ScalarType::f32}) {
    const OpMatrix x = matrix(kRows, kIn, RowLayout::dense, type, values);
    const OpMatrix y = matrix(kRows, kOut, RowLayout::dense, ScalarType::f32);
    backend().linear({weights.copied(), x.view(), y.view(), kRows});
    const auto got = y.values();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i / kOut == 1) << i;
  }
}

// What a pass of few rows launches is what it launches in mode f16; a call of the library is one.
TEST_P(CudaFastTest, Launches) {
  constexpr int32_t kIn = 96, kOut = 40;
  const FastWeights weights(backend(), WeightType::q4_1, kOut, kIn, random());
  const OpMatrix x = matrix(200, kIn, RowLayout::dense, ScalarType::f16, exact_rows(200, kIn));
  const OpMatrix y = matrix(200, kOut, RowLayout::dense, ScalarType::f32);
  const auto launches = [&](const WeightMatrix& w, int32_t rows) {
    backend().synchronise();
    const uint64_t before = backend().host_launches();
    backend().linear({w, x.view(), y.view(), rows});
    backend().synchronise();
    return backend().host_launches() - before;
  };
  for (int32_t rows : {1, 16, 64, 128}) {
    EXPECT_EQ(launches(weights.copied(), rows), launches(weights.tiled(), rows)) << rows;
  }
  EXPECT_EQ(launches(weights.copied(), 200), 1u);
}

TEST_P(CudaFastTest, AllocatesNothingAfterTheStart) {
  constexpr int32_t kIn = 576;
  const FastWeights weights(backend(), WeightType::q4_1, 1024, kIn, random());
  const OpMatrix x =
      matrix(kMostRows, kIn, RowLayout::scattered, ScalarType::f32, exact_rows(kMostRows, kIn));
  const OpMatrix y = matrix(kMostRows, 1024, RowLayout::scattered, ScalarType::f16);
  backend().synchronise();
  const uint64_t before = backend().memory().allocation_count();
  for (int32_t rows : {129, 300, 513}) {
    backend().linear({weights.copied(), x.view(), y.view(), rows});
  }
  backend().synchronise();
  EXPECT_EQ(backend().memory().allocation_count(), before);
}

TINYLOOP_IN_FAST_MODE(CudaFastTest);

}  // namespace
}  // namespace tinyloop::testing
