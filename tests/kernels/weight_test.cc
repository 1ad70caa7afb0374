// Weight formats: sizes, and blocks decoded by hand.
#include "kernels/weight.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/error.h"

namespace tinyloop::kernels {
namespace {

class Block {
 public:
  Block& half(uint16_t bits) { return raw(&bits, 2); }
  Block& byte(int value) {
    bytes_.push_back(std::byte(value));
    return *this;
  }
  Block& raw(const void* data, size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
    return *this;
  }
  std::vector<float> decode(WeightType type, int32_t cols) const {
    std::vector<float> out(size_t(cols) + 1, -99.0f);
    dequantise_row({type, 1, cols, bytes_.data()}, 0, out.data());
    EXPECT_EQ(out.back(), -99.0f) << "wrote past the row";
    out.pop_back();
    return out;
  }

 private:
  std::vector<std::byte> bytes_;
};

constexpr uint16_t kHalf0_5 = 0x3800, kHalfMinus2 = 0xc000, kHalf1 = 0x3c00;
constexpr uint16_t kHalfSmallest = 0x0001;  // 2^-24, a subnormal

TEST(WeightTest, KnowsItsFormatsAndNoOthers) {
  const struct {
    uint32_t type;
    const char* name;
    int32_t values, bytes;
  } formats[] = {{0, "F32", 1, 4},    {1, "F16", 1, 2},    {2, "Q4_0", 32, 18},
                 {3, "Q4_1", 32, 20}, {8, "Q8_0", 32, 34}, {30, "BF16", 1, 2}};
  for (const auto& want : formats) {
    const auto format = weight_format(want.type);
    ASSERT_TRUE(format);
    EXPECT_EQ(format->name, want.name);
    EXPECT_EQ(format->block_values, want.values);
    EXPECT_EQ(format->block_bytes, want.bytes);
  }
  for (uint32_t other : {4u, 5u, 6u, 7u, 9u, 12u, 29u, 31u, 0xffffffffu}) {
    EXPECT_FALSE(weight_format(other)) << other;
  }
  EXPECT_EQ((WeightMatrix{WeightType::q4_1, 3, 64, nullptr}.bytes()), 3u * 40u);
}

TEST(WeightTest, Q4_1) {
  Block block;
  block.half(kHalf0_5).half(kHalfMinus2);
  for (int j = 0; j < 16; ++j) block.byte((15 - j) << 4 | j);
  const auto values = block.decode(WeightType::q4_1, 32);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(values[size_t(j)], 0.5f * float(j) - 2.0f);
    EXPECT_EQ(values[size_t(j + 16)], 0.5f * float(15 - j) - 2.0f);
  }
}

TEST(WeightTest, Q4_0) {
  Block block;
  block.half(kHalfMinus2);
  for (int j = 0; j < 16; ++j) block.byte(j << 4 | (15 - j));
  const auto values = block.decode(WeightType::q4_0, 32);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(values[size_t(j)], -2.0f * float(15 - j - 8));
    EXPECT_EQ(values[size_t(j + 16)], -2.0f * float(j - 8));
  }
}

TEST(WeightTest, Q8_0) {
  Block block;
  block.half(kHalf0_5);
  for (int j = 0; j < 32; ++j) block.byte(j * 8 - 128);
  block.half(kHalfSmallest);
  for (int j = 0; j < 32; ++j) block.byte(127);
  const auto values = block.decode(WeightType::q8_0, 64);
  for (int j = 0; j < 32; ++j) {
    EXPECT_EQ(values[size_t(j)], 0.5f * float(j * 8 - 128));
    EXPECT_EQ(values[size_t(j + 32)], 127.0f * 0x1p-24f);
  }
}

TEST(WeightTest, FloatingPointOfAnyLength) {
  for (int32_t cols : {1, 3, 8, 9, 17}) {
    Block half, brain, full;
    for (int32_t i = 0; i < cols; ++i) {
      const auto value = float(i);
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      half.half(i % 2 ? kHalf1 : kHalfSmallest);
      brain.half(uint16_t(bits >> 16));
      full.raw(&value, 4);
    }
    const auto h = half.decode(WeightType::f16, cols), b = brain.decode(WeightType::bf16, cols);
    const auto f = full.decode(WeightType::f32, cols);
    for (int32_t i = 0; i < cols; ++i) {
      EXPECT_EQ(h[size_t(i)], i % 2 ? 1.0f : 0x1p-24f);
      EXPECT_EQ(b[size_t(i)], float(i));
      EXPECT_EQ(f[size_t(i)], float(i));
    }
  }
}

TEST(WeightTest, ARowOutsideTheMatrixIsABug) {
  const std::vector<std::byte> data(8);
  float out[2];
  EXPECT_THROW(dequantise_row({WeightType::f32, 1, 2, data.data()}, 1, out), base::Failure);
  EXPECT_THROW(dequantise_row({WeightType::f32, 1, 2, nullptr}, 0, out), base::Failure);
}

}  // namespace
}  // namespace tinyloop::kernels
