// The ops on whole rows: norms, activations, rotation, residual, injection, copies, initial states.
#include <cmath>

#include "base/philox.h"
#include "tests/support/op_test.h"

namespace tinyloop::testing {
namespace {

constexpr int32_t kRowCounts[] = {1, 7, 64, 300};
constexpr RowLayout kLayouts[] = {RowLayout::dense, RowLayout::scattered};

class RowsTest : public OpTest {
 protected:
  OpMatrix matrix(int32_t rows, int32_t cols, RowLayout layout, const std::vector<float>& values) {
    return {backend(), rows, cols, layout, random(), values};
  }
  std::vector<float> values(int32_t rows, int32_t cols, float scale = 1.0f) {
    return random().values(size_t(rows) * size_t(cols), scale);
  }
};

TEST_P(RowsTest, RmsNorm) {
  const struct {
    int32_t groups, cols;
  } shapes[] = {{1, 1}, {1, 7}, {1, 512}, {6, 34}, {5, 64}, {3, 2}};
  for (auto [groups, cols] : shapes) {
    for (int32_t rows : kRowCounts) {
      for (RowLayout layout : kLayouts) {
        const auto x = values(rows, groups * cols, 30.0f);
        const auto weight = random().values(size_t(cols), 2.0f);
        const DeviceArray<float> device_weight(backend(), weight);
        const Expected want = reference_rms_norm(x, weight, cols, 1e-5);
        const OpMatrix in = matrix(rows, groups * cols, layout, x);
        const OpMatrix out(backend(), rows, groups * cols, layout, random());
        backend().rms_norm(
            {in.view(), out.view(), device_weight.data(), rows, groups, cols, 1e-5f});
        EXPECT_TRUE(near(out.values(), want, tolerance().rms_norm));
        EXPECT_TRUE(out.untouched());
        backend().rms_norm({in.view(), in.view(), device_weight.data(), rows, groups, cols, 1e-5f});
        EXPECT_TRUE(same_bits(in.values(), out.values())) << "in place";
      }
    }
  }
}

TEST_P(RowsTest, RmsNormOfARowDependsOnThatRowAlone) {
  constexpr int32_t kRows = 40, kCols = 131;
  const auto x = values(kRows, kCols);
  const DeviceArray<float> weight(backend(), random().values(kCols));
  const OpMatrix all = matrix(kRows, kCols, RowLayout::dense, x);
  backend().rms_norm({all.view(), all.view(), weight.data(), kRows, 1, kCols, 1e-6f});
  for (int32_t row = 0; row < kRows; ++row) {
    const OpMatrix one = matrix(1, kCols, RowLayout::scattered, row_of(x, row, kCols));
    backend().rms_norm({one.view(), one.view(), weight.data(), 1, 1, kCols, 1e-6f});
    EXPECT_TRUE(same_bits(one.values(), row_of(all.values(), row, kCols)));
  }
}

TEST_P(RowsTest, Swiglu) {
  for (int32_t cols : {1, 7, 8, 9, 1408}) {
    for (int32_t rows : kRowCounts) {
      for (RowLayout layout : kLayouts) {
        auto gate = values(rows, cols, 20.0f);
        for (size_t i = 0; i < gate.size(); i += 5)
          gate[i] *= 10.0f;  // also far outside exp's range
        const auto up = values(rows, cols, 3.0f);
        const OpMatrix g = matrix(rows, cols, layout, gate), u = matrix(rows, cols, layout, up);
        backend().ffn_activation(
            {kernels::FfnType::swiglu, g.view(), u.view(), u.view(), rows, cols});
        EXPECT_TRUE(near(u.values(), reference_swiglu(gate, up), tolerance().activation));
        EXPECT_TRUE(u.untouched());
      }
    }
  }
}

TEST_P(RowsTest, SwigluOfExtremeGates) {
  const std::vector<float> gate = {0.0f, -0.0f, 1e30f, -1e30f, 88.0f, -88.0f, -104.0f, 1e-30f};
  const OpMatrix g = matrix(1, 8, RowLayout::dense, gate);
  const OpMatrix u = matrix(1, 8, RowLayout::dense, std::vector<float>(8, 1.0f));
  backend().ffn_activation({kernels::FfnType::swiglu, g.view(), u.view(), u.view(), 1, 8});
  const auto y = u.values();
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_EQ(y[2], 1e30f);
  EXPECT_LE(std::abs(y[3]), 1e-7f);
  EXPECT_FLOAT_EQ(y[4], 88.0f);
  EXPECT_LE(std::abs(y[5]), 1e-35f);
  EXPECT_LE(std::abs(y[6]), 1e-35f);
  EXPECT_FLOAT_EQ(y[7], 0.5e-30f);
}

TEST_P(RowsTest, Relu2) {
  for (RowLayout layout : kLayouts) {
    const auto up = values(9, 77, 5.0f);
    const OpMatrix u = matrix(9, 77, layout, up);
    const OpMatrix y(backend(), 9, 77, layout, random());
    backend().ffn_activation({kernels::FfnType::relu2, {}, u.view(), y.view(), 9, 77});
    EXPECT_TRUE(near(y.values(), reference_relu2(up), tolerance().elementwise));
    EXPECT_TRUE(y.untouched());
  }
}

TEST_P(RowsTest, Rope) {
  constexpr int32_t kPositions = 1024;
  for (int32_t head_dim : {2, 34, 64, 96}) {
    for (double base : {10000.0, 1e6}) {
      std::vector<float> table(size_t(kPositions) * size_t(head_dim));
      kernels::fill_rope_table(table.data(), kPositions, head_dim, float(base));
      const DeviceArray<float> device_table(backend(), table);
      const std::vector<int32_t> positions = {1023, 0, 1, 17, 511, 17};
      const DeviceArray<int32_t> device_positions(backend(), positions);
      const auto rows = int32_t(positions.size());
      const auto x = values(rows, 3 * head_dim, 10.0f);
      const OpMatrix m = matrix(rows, 3 * head_dim, RowLayout::scattered, x);
      backend().rope({m.view(), device_positions.data(), device_table.data(), rows, 3, head_dim});
      EXPECT_TRUE(near(m.values(), reference_rope(x, positions, 3, head_dim, base),
                       tolerance().elementwise));
      EXPECT_TRUE(m.untouched());
    }
  }
}

TEST_P(RowsTest, ResidualAddScaleAddAndCopy) {
  for (int32_t rows : kRowCounts) {
    for (RowLayout layout : kLayouts) {
      const int32_t cols = 77;
      const auto x = values(rows, cols), y = values(rows, cols), a = values(1, cols);
      const DeviceArray<float> device_a(backend(), a);
      const OpMatrix from = matrix(rows, cols, layout, x);
      const OpMatrix sum = matrix(rows, cols, layout, y), scaled = matrix(rows, cols, layout, y);
      const OpMatrix copy(backend(), rows, cols, layout, random());
      backend().residual_add({from.view(), sum.view(), rows, cols});
      backend().scale_add({device_a.data(), from.view(), scaled.view(), rows, cols});
      backend().copy_rows({from.view(), copy.view(), rows, cols});
      Expected want_sum, want_scaled;
      for (size_t i = 0; i < x.size(); ++i) {
        const double scaled_y = double(a[i % size_t(cols)]) * double(y[i]);
        want_sum.add(double(y[i]) + double(x[i]), std::abs(double(y[i])) + std::abs(double(x[i])));
        want_scaled.add(scaled_y + double(x[i]), std::abs(scaled_y) + std::abs(double(x[i])));
      }
      EXPECT_TRUE(near(sum.values(), want_sum, tolerance().elementwise));
      EXPECT_TRUE(near(scaled.values(), want_scaled, tolerance().elementwise));
      EXPECT_TRUE(same_bits(copy.values(), x));
      EXPECT_TRUE(sum.untouched() && scaled.untouched() && copy.untouched());
    }
  }
}

TEST_P(RowsTest, InitialStateComesFromPositionAndDimension) {
  constexpr int32_t kCols = 65;
  const std::vector<int32_t> positions = {5, 0, 1000000, 5};
  const DeviceArray<int32_t> device_positions(backend(), positions);
  const OpMatrix y(backend(), 4, kCols, RowLayout::scattered, random());
  backend().initial_state({0.25f, device_positions.data(), y.view(), 4, kCols});
  const auto got = y.values();
  Expected want;
  for (int32_t row = 0; row < 4; ++row) {
    for (int32_t c = 0; c < kCols; ++c) {
      const auto words = base::philox(kernels::kInitialStateKey, base::RandomDomain::initial_state,
                                      uint64_t(positions[size_t(row)]), uint32_t(c / 2));
      const float value = 0.25f * base::normal_pair(words)[size_t(c % 2)];
      want.add(double(value), std::abs(double(value)));
    }
  }
  EXPECT_TRUE(near(got, want, tolerance().initial_state));
  EXPECT_TRUE(same_bits(row_of(got, 0, kCols), row_of(got, 3, kCols)));
  EXPECT_TRUE(y.untouched());
  backend().initial_state({0.0f, device_positions.data(), y.view(), 4, kCols});
  EXPECT_TRUE(same_bits(y.values(), std::vector<float>(4 * kCols, 0.0f)));
}

TEST_P(RowsTest, NoRowsIsNothingToDo) {
  const DeviceArray<float> weight(backend(), std::vector<float>(8, 1.0f));
  const OpMatrix y = matrix(1, 8, RowLayout::dense, std::vector<float>(8, 3.0f));
  backend().rms_norm({y.view(), y.view(), weight.data(), 0, 1, 8, 1e-5f});
  backend().residual_add({y.view(), y.view(), 0, 8});
  EXPECT_TRUE(same_bits(y.values(), std::vector<float>(8, 3.0f)));
}

TEST(RopeTableTest, AnglesAreRoundedOnce) {
  std::vector<float> table(4096 * 4);
  kernels::fill_rope_table(table.data(), 4096, 4, 10000.0f);
  EXPECT_EQ(table[0], 1.0f);
  EXPECT_EQ(table[1], 0.0f);
  for (int p : {1, 777, 4095}) {
    EXPECT_EQ(table[size_t(p) * 4], float(std::cos(double(p))));
    EXPECT_EQ(table[size_t(p) * 4 + 3], float(std::sin(double(p) * std::pow(10000.0, -0.5))));
  }
}

TINYLOOP_ON_EVERY_DEVICE(RowsTest);

}  // namespace
}  // namespace tinyloop::testing
