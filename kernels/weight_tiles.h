// The layout of weights that tensor cores read: tiles of 16 outputs x 64 values of k, each number
// where the lane that needs it finds it in one wide load.
//
// Lane (g, t) = (lane / 4, lane % 4) of a warp holds, for each step j of 16 values of k, the
// operand of mma.m16n8k16: outputs g and g + 8 at k = 16j + {2t, 2t + 1, 2t + 8, 2t + 9}. In the
// order [step][output g, k low pair; output g + 8, low pair; g, high pair; g + 8, high pair][2]
// those are the lane's 32 numbers of a tile.
//
// A tile is its codes, lane after lane, then its scales:
//     Q4_0, Q4_1: 16 bytes; a dword a step; number n of pair q at bit 4q + 16n
//     Q8_0:       32 bytes; number i in byte i, as code + 128
//     F16:        64 bytes; number i in half i
//     scales of quantised types, g after g: d of output g in blocks 0 and 1 of 32 values, then of
//       output g + 8; Q4_1: then the four minimums
// Tiles lie [row tile][k tile], so that 16 outputs are one stretch of memory. Outputs and values of
// k beyond the matrix are zeros (scale 0 where there is one).
//
// F32 and BF16 matrices are stored as F16, values beyond its range cut to it.
#pragma once

#include <cstddef>

#include "kernels/weight.h"

namespace tinyloop::kernels {

inline constexpr int32_t kTileOutputs = 16;
inline constexpr int32_t kTileDepth = 64;  // values of k
inline constexpr int32_t kTileLanes = 32;

// The type that the numbers of a tile have: quantised types their own, all others F16.
constexpr WeightType tile_type(WeightType type) {
  return type == WeightType::q4_0 || type == WeightType::q4_1 || type == WeightType::q8_0
             ? type
             : WeightType::f16;
}

// Bytes of one tile's codes and scales.
constexpr size_t tile_code_bytes(WeightType type) {
  switch (tile_type(type)) {
    case WeightType::q4_0:
    case WeightType::q4_1:
      return 512;
    case WeightType::q8_0:
      return 1024;
    default:
      return 2048;
  }
}
constexpr size_t tile_scale_bytes(WeightType type) {
  switch (tile_type(type)) {
    case WeightType::q4_0:
    case WeightType::q8_0:
      return 64;
    case WeightType::q4_1:
      return 128;
    default:
      return 0;
  }
}

constexpr size_t tile_bytes(WeightType type) {
  return tile_code_bytes(type) + tile_scale_bytes(type);
}

// Where number (output, k) of a tile stands.
struct TilePlace {
  int32_t lane;
  int32_t step;
  int32_t pair;                                                             // 0 … 3
  int32_t number;                                                           // 0, 1
  constexpr int32_t index() const { return step * 8 + pair * 2 + number; }  // of the lane's 32
};

constexpr TilePlace tile_place(int32_t output, int32_t k) {
  const int32_t within = k % 16;
  return {.lane = output % 8 * 4 + within % 8 / 2,
          .step = k / 16,
          .pair = within / 8 * 2 + output / 8,
          .number = within % 2};
}

constexpr int32_t row_tiles(int32_t rows) {
  return (rows + kTileOutputs - 1) / kTileOutputs;
}
constexpr int32_t depth_tiles(int32_t cols) {
  return (cols + kTileDepth - 1) / kTileDepth;
}
constexpr size_t tiles_bytes(WeightType type, int32_t rows, int32_t cols) {
  return size_t(row_tiles(rows)) * size_t(depth_tiles(cols)) * tile_bytes(type);
}

// Rewrites row tiles [first, first + count) of host-readable `from`, which is in the layout `rows`,
// into `to`, of count · depth_tiles · tile_bytes bytes.
void pack_tiles(const WeightMatrix& from, int32_t first, int32_t count, std::byte* to);

}  // namespace tinyloop::kernels
