// The tensor-core layout of weights, read back by the words of its header.
#include "kernels/weight_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "tests/support/op_random.h"
#include "tests/support/quantise.h"

namespace tinyloop::testing {
namespace {

using kernels::WeightMatrix;
using kernels::WeightType;

constexpr WeightType kTypes[] = {WeightType::q4_0, WeightType::q4_1, WeightType::q8_0,
                                 WeightType::f16,  WeightType::f32,  WeightType::bf16};
constexpr int32_t kRows[] = {1, 8, 15, 16, 17, 33, 64};

// Whole blocks of the type.
std::vector<int32_t> widths(WeightType type) {
  if (weight_format(type).block_values == 1) return {1, 7, 16, 63, 64, 65, 130};
  return {32, 64, 96, 160, 256};
}

// `slice`: row tiles at a time.
std::vector<std::byte> pack(const WeightMatrix& rows, int32_t slice) {
  const size_t row_bytes = kernels::tiles_bytes(rows.type, 1, rows.cols);
  const int32_t tiles = kernels::row_tiles(rows.rows);
  std::vector<std::byte> packed(size_t(tiles) * row_bytes, std::byte{0xee});
  for (int32_t first = 0; first < tiles; first += slice) {
    kernels::pack_tiles(rows, first, std::min(slice, tiles - first),
                        packed.data() + size_t(first) * row_bytes);
  }
  return packed;
}

float half_at(const std::byte* from, int32_t index) {
  uint16_t bits;
  std::memcpy(&bits, from + index * 2, 2);
  return from_half(bits);
}

// Number `i` (0 … 31) of a lane in one tile.
float number(WeightType type, const std::byte* codes, const std::byte* scales, int32_t lane,
             int32_t i) {
  const int32_t step = i / 8, pair = i % 8 / 2, n = i % 2, g = lane / 4;
  const int32_t block = step / 2, upper = pair % 2;  // upper: output g + 8
  if (kernels::tile_type(type) == WeightType::f16) return half_at(codes + lane * 64, i);
  const int32_t scales_of_g = type == WeightType::q4_1 ? 8 : 4;
  const std::byte* own = scales + g * scales_of_g * 2;
  const float d = half_at(own, upper * 2 + block);
  if (type == WeightType::q8_0) {
    return d * float(std::to_integer<int>(codes[lane * 32 + i]) - 128);
  }
  uint32_t dword;
  std::memcpy(&dword, codes + lane * 16 + step * 4, 4);
  const auto code = float(dword >> (4 * pair + 16 * n) & 15);
  return type == WeightType::q4_0 ? d * (code - 8.0f)
                                  : d * code + half_at(own, 4 + upper * 2 + block);
}

// The numbers of all tiles, each where it belongs: [rows of whole tiles][columns of whole tiles].
std::vector<float> unpack(const WeightMatrix& rows, const std::vector<std::byte>& packed) {
  const int32_t tiles = kernels::row_tiles(rows.rows), depth = kernels::depth_tiles(rows.cols);
  const auto width = size_t(depth) * kernels::kTileDepth;
  std::vector<float> values(size_t(tiles) * kernels::kTileOutputs * width, HUGE_VALF);
  for (size_t tile = 0; tile < size_t(tiles) * size_t(depth); ++tile) {
    const std::byte* codes = packed.data() + tile * kernels::tile_bytes(rows.type);
    const std::byte* scales = codes + kernels::tile_code_bytes(rows.type);
    for (int32_t lane = 0; lane < kernels::kTileLanes; ++lane) {
      const int32_t g = lane / 4, t = lane % 4;
      for (int32_t i = 0; i < 32; ++i) {
        const int32_t step = i / 8, pair = i % 8 / 2, n = i % 2;
        const int32_t output = g + pair % 2 * 8, k = 16 * step + 2 * t + pair / 2 * 8 + n;
        const size_t row = tile / size_t(depth) * kernels::kTileOutputs + size_t(output);
        const size_t col = tile % size_t(depth) * kernels::kTileDepth + size_t(k);
        float& place = values[row * width + col];
        EXPECT_EQ(place, HUGE_VALF) << "two numbers of the lanes are one of the tile";
        place = number(rows.type, codes, scales, lane, i);
      }
    }
  }
  return values;
}

TEST(WeightTilesTest, EveryNumberIsWhereTheHeaderSays) {
  OpRandom random(7);
  for (WeightType type : kTypes) {
    for (int32_t rows : kRows) {
      for (int32_t cols : widths(type)) {
        SCOPED_TRACE(::testing::Message()
                     << kernels::weight_format(type).name << " " << rows << "x" << cols);
        const auto file = quantise(type, random.values(size_t(rows) * size_t(cols)));
        const WeightMatrix matrix{type, rows, cols, file.data()};
        const auto values = dequantise(type, file);
        const auto got = unpack(matrix, pack(matrix, 1000));
        const auto width = size_t(kernels::depth_tiles(cols)) * kernels::kTileDepth;
        for (size_t i = 0; i < got.size(); ++i) {
          const size_t row = i / width, col = i % width;
          float want = 0.0f;
          if (row < size_t(rows) && col < size_t(cols)) {
            want = values[row * size_t(cols) + col];
            if (kernels::tile_type(type) == WeightType::f16) want = from_half(to_half(want));
          }
          ASSERT_EQ(got[i], want) << "output " << row << ", k " << col;
        }
      }
    }
  }
}

TEST(WeightTilesTest, SlicesGiveTheSameBytes) {
  OpRandom random(8);
  for (WeightType type : kTypes) {
    constexpr int32_t kCols = 96, kOut = 70;
    const auto file = quantise(type, random.values(size_t(kOut) * kCols));
    const WeightMatrix matrix{type, kOut, kCols, file.data()};
    const auto whole = pack(matrix, 1000);
    EXPECT_EQ(whole.size(), kernels::tiles_bytes(type, kOut, kCols));
    for (int32_t slice : {1, 2, 3}) {
      EXPECT_EQ(pack(matrix, slice), whole);
    }
  }
}

TEST(WeightTilesTest, TheMatrixKnowsItsBytes) {
  for (WeightType type : kTypes) {
    const WeightMatrix matrix{type, 17, 96, nullptr, kernels::WeightLayout::tiles};
    EXPECT_EQ(matrix.bytes(), kernels::tiles_bytes(type, 17, 96));
  }
  EXPECT_EQ(kernels::tiles_bytes(WeightType::q4_0, 17, 96), 2u * 2 * (512 + 64));
  EXPECT_EQ(kernels::tiles_bytes(WeightType::q4_1, 17, 96), 2u * 2 * (512 + 128));
  EXPECT_EQ(kernels::tiles_bytes(WeightType::q8_0, 16, 64), 1024u + 64);
  EXPECT_EQ(kernels::tiles_bytes(WeightType::bf16, 1, 1), 2048u);
}

// Codes of every value, not only those that a random matrix has.
TEST(WeightTilesTest, ExtremeCodes) {
  constexpr int32_t kCols = 64, kOut = 16;
  for (WeightType type : {WeightType::q4_0, WeightType::q4_1, WeightType::q8_0}) {
    auto file = quantise(type, std::vector<float>(size_t(kOut) * kCols, 1.0f));
    const kernels::WeightFormat format = kernels::weight_format(type);
    const auto block = size_t(format.block_bytes);
    const size_t first = block - (type == WeightType::q8_0 ? 32 : 16);
    for (size_t i = 0; i < file.size(); ++i) {
      if (i % block >= first) file[i] = std::byte(i * 37);
    }
    const WeightMatrix matrix{type, kOut, kCols, file.data()};
    EXPECT_EQ(unpack(matrix, pack(matrix, 1)), dequantise(type, file));
  }
}

TEST(WeightTilesTest, NumbersBeyondFp16AreCutToIt) {
  const std::vector<float> values = {1e9f, -1e9f, 65504.0f, 65519.0f, 65520.0f, HUGE_VALF};
  const auto cols = int32_t(values.size());
  const auto file = quantise(WeightType::f32, values);
  const WeightMatrix matrix{WeightType::f32, 1, cols, file.data()};
  auto got = unpack(matrix, pack(matrix, 1));
  got.resize(values.size());
  EXPECT_EQ(got, (std::vector<float>{65504.0f, -65504.0f, 65504.0f, 65504.0f, 65504.0f, 65504.0f}));
}

TEST(WeightTilesTest, WrongArgumentsAreABug) {
  const std::vector<std::byte> file(18 * 2);
  std::vector<std::byte> out(4096);
  const WeightMatrix matrix{WeightType::q4_0, 2, 32, file.data()};
  EXPECT_THROW(kernels::pack_tiles(matrix, 0, 2, out.data()), base::Failure);
  EXPECT_THROW(kernels::pack_tiles(matrix, -1, 1, out.data()), base::Failure);
  WeightMatrix tiles = matrix;
  tiles.layout = kernels::WeightLayout::tiles;
  EXPECT_THROW(kernels::pack_tiles(tiles, 0, 1, out.data()), base::Failure);
  float row[32];
  EXPECT_THROW(kernels::dequantise_row(tiles, 0, row), base::Failure);
}

}  // namespace
}  // namespace tinyloop::testing
