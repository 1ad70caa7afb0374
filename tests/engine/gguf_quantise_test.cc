// The tests' own encoders against the format's definition and against the kernels' decoder.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/philox.h"
#include "kernels/weight.h"
#include "tests/support/quantise.h"

namespace tinyloop::testing {
namespace {

using kernels::WeightType;

constexpr WeightType kTypes[] = {WeightType::f32,  WeightType::f16,  WeightType::bf16,
                                 WeightType::q8_0, WeightType::q4_0, WeightType::q4_1};

std::vector<float> normal_values(size_t count) {
  std::vector<float> values;
  for (uint64_t i = 0; values.size() < count; ++i) {
    const auto pair = base::normal_pair(base::philox(7, base::RandomDomain::test, i, 0));
    values.insert(values.end(), pair.begin(), pair.end());
  }
  return values;
}

// The largest error a block of `type` may have, given its largest magnitude.
float error_bound(WeightType type, float largest) {
  switch (type) {
    case WeightType::f32:
      return 0.0f;
    case WeightType::f16:
      return largest * 0x1p-11f;
    case WeightType::bf16:
      return largest * 0x1p-8f;
    case WeightType::q8_0:
      return largest / 127.0f * 0.51f;
    case WeightType::q4_0:
      return largest / 8.0f * 1.01f;  // the side without a code for 8
    case WeightType::q4_1:
      return 2.0f * largest / 15.0f * 0.52f;
  }
  return 0.0f;
}

TEST(GgufQuantise, HalfMatchesKnownValues) {
  const std::pair<float, uint16_t> known[] = {
      {0.0f, 0x0000},     {-0.0f, 0x8000},           {1.0f, 0x3c00},
      {-2.0f, 0xc000},    {65504.0f, 0x7bff},        {65520.0f, 0x7c00},
      {0x1p-14f, 0x0400}, {0x1p-24f, 0x0001},        {0x1p-25f, 0x0000},
      {0.1f, 0x2e66},     {1.0f + 0x1p-11f, 0x3c00}, {1.0f + 3 * 0x1p-11f, 0x3c02}};
  for (const auto& [value, bits] : known) EXPECT_EQ(to_half(value), bits) << value;
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    ASSERT_EQ(to_half(from_half(static_cast<uint16_t>(bits))), bits);
  }
  EXPECT_TRUE(std::isnan(from_half(to_half(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(from_half(to_half(std::numeric_limits<float>::infinity()))));
}

TEST(GgufQuantise, EveryTypeRoundTripsWithinItsStep) {
  const std::vector<float> values = normal_values(64 * 32);
  for (const WeightType type : kTypes) {
    const auto decoded = dequantise(type, quantise(type, values));
    ASSERT_EQ(decoded.size(), values.size());
    for (size_t block = 0; block < values.size(); block += 32) {
      float largest = 0.0f;
      for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(values[block + i]));
      for (size_t i = block; i < block + 32; ++i) {
        ASSERT_LE(std::abs(decoded[i] - values[i]), error_bound(type, largest))
            << kernels::weight_format(type).name << " value " << i;
      }
    }
  }
}

TEST(GgufQuantise, ConstantBlocksAreExact) {
  for (const WeightType type : kTypes) {
    for (const float value : {0.0f, 0.5f, -2.0f}) {
      const std::vector<float> values(32, value);
      const auto decoded = dequantise(type, quantise(type, values));
      // 8-bit: 127 steps of a rounded scale.
      const float tolerance = type == WeightType::q8_0 ? std::abs(value) * 0x1p-10f : 0.0f;
      for (const float got : decoded) EXPECT_NEAR(got, value, tolerance);
    }
  }
}

TEST(GgufQuantise, NibbleOrderIsLowHalfFirst) {
  std::vector<float> values(32, 0.0f);
  values[3] = 15.0f;
  values[19] = 7.0f;
  const auto data = quantise(WeightType::q4_1, values);
  ASSERT_EQ(data.size(), 20u);
  EXPECT_EQ(std::to_integer<int>(data[4 + 3]), 0x7f);
}

TEST(GgufQuantise, KernelsDecodeTheSameValues) {
  constexpr int32_t kRows = 3, kCols = 96;
  const std::vector<float> values = normal_values(kRows * kCols);
  for (const WeightType type : kTypes) {
    const auto data = quantise(type, values);
    const auto expected = dequantise(type, data);
    const kernels::WeightMatrix matrix{type, kRows, kCols, data.data()};
    ASSERT_EQ(matrix.bytes(), data.size());
    for (int32_t row = 0; row < kRows; ++row) {
      std::vector<float> got(kCols);
      kernels::dequantise_row(matrix, row, got.data());
      for (int32_t col = 0; col < kCols; ++col) {
        ASSERT_EQ(got[size_t(col)], expected[size_t(row * kCols + col)])
            << matrix.row_bytes() << " " << kernels::weight_format(type).name;
      }
    }
  }
}

}  // namespace
}  // namespace tinyloop::testing
