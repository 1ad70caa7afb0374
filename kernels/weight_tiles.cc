#include "kernels/weight_tiles.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/half.h"

namespace tinyloop::kernels {

namespace {

constexpr int32_t kBlock = 32;  // values that share a scale
constexpr float kMostHalf = 65504.0f;

// One output's values of one tile: `row` points at the row's first block, `k` is the tile's first
// value.
class RowPacker {
 public:
  RowPacker(const WeightMatrix& from, int32_t output, std::byte* codes, std::byte* scales)
      : from_(from), output_(output), codes_(codes), scales_(scales) {}

  void pack_block(const std::byte* block, int32_t k) {
    const int32_t half = k % kTileDepth / kBlock;
    put_scale(block, half, 0);
    if (from_.type == WeightType::q4_1) put_scale(block + 2, half, 4);
    const std::byte* numbers = block + (from_.type == WeightType::q4_1 ? 4 : 2);
    for (int32_t i = 0; i < kBlock; ++i) {
      const TilePlace place = tile_place(output_, half * kBlock + i);
      if (from_.type == WeightType::q8_0) {
        codes_[place.lane * 32 + place.index()] = numbers[i] ^ std::byte{0x80};
      } else {
        const auto byte = uint32_t(numbers[i % 16]);
        const uint32_t code = i < 16 ? byte & 15 : byte >> 4;
        const int32_t bit = 4 * place.pair + 16 * place.number;
        codes_[place.lane * 16 + place.step * 4 + bit / 8] |=
            static_cast<std::byte>(code << bit % 8);
      }
    }
  }
  void pack_half(uint16_t value, int32_t k) {
    const TilePlace place = tile_place(output_, k);
    std::memcpy(codes_ + place.lane * 64 + place.index() * 2, &value, 2);
  }

 private:
  // Four scales for each g: outputs g and g + 8, blocks 0 and 1.
  void put_scale(const std::byte* half, int32_t block, int32_t first) {
    const auto stride = int32_t(tile_scale_bytes(from_.type) / 8 / 2);
    const int32_t index = output_ % 8 * stride + first + output_ / 8 * 2 + block;
    std::memcpy(scales_ + index * 2, half, 2);
  }

  const WeightMatrix& from_;
  const int32_t output_;
  std::byte* codes_;
  std::byte* scales_;
};

void pack_row(const WeightMatrix& from, int32_t row, std::vector<float>& values, std::byte* to) {
  const int32_t output = row % kTileOutputs;
  const std::byte* source = from.data + size_t(row) * from.row_bytes();
  const bool quantised = tile_scale_bytes(from.type) > 0;
  if (!quantised) dequantise_row(from, row, values.data());
  const int32_t step = quantised ? kBlock : 1;
  const auto block_bytes = size_t(weight_format(from.type).block_bytes);
  for (int32_t k = 0; k < from.cols; k += step) {
    std::byte* tile = to + size_t(k / kTileDepth) * tile_bytes(from.type);
    RowPacker packer(from, output, tile, tile + tile_code_bytes(from.type));
    if (quantised) {
      packer.pack_block(source + size_t(k / kBlock) * block_bytes, k);
    } else {
      packer.pack_half(nearest_half(std::clamp(values[size_t(k)], -kMostHalf, kMostHalf)),
                       k % kTileDepth);
    }
  }
}

}  // namespace

void pack_tiles(const WeightMatrix& from, int32_t first, int32_t count, std::byte* to) {
  TINYLOOP_CHECK(from.layout == WeightLayout::rows);
  TINYLOOP_CHECK(first >= 0 && count >= 0 && first + count <= row_tiles(from.rows));
  const size_t row_tile_bytes = size_t(depth_tiles(from.cols)) * tile_bytes(from.type);
  std::memset(to, 0, size_t(count) * row_tile_bytes);
  std::vector<float> values(size_t(from.cols));
  const int32_t end = std::min(from.rows, (first + count) * kTileOutputs);
  for (int32_t row = first * kTileOutputs; row < end; ++row) {
    pack_row(from, row, values, to + size_t(row / kTileOutputs - first) * row_tile_bytes);
  }
}

}  // namespace tinyloop::kernels
