// How the narrow product (kernels/cuda/narrow_product.cuh) is cut. Plain C++, as product_order.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/product_order.h"
#include "kernels/weight_tiles.h"

namespace tinyloop::kernels {

inline constexpr int kMostSets = 2;
inline constexpr int kRowPad = 8;       // halves: rows of x start in different banks
inline constexpr int kRingStages = 4;   // of a ring
inline constexpr int kRingTiles = 4;    // of a ring's stage, over all matrices, at most
inline constexpr int kNarrowRows = 16;  // at most

constexpr int narrow_matrices(ProductEnd end) {
  return end == ProductEnd::swiglu ? 2 : 1;
}
// Threads among which a multiprocessor's registers are shared out: 80 each, 96 for two eights of
// rows, so that a block of two sets leaves room for one of the next kernel, as a rule. (Three sets
// would give each warp of many products one unit in place of two, and leave none: what a product
// gains by them alone, a layer loses.)
constexpr int register_threads(int eights) {
  return eights > 1 ? 640 : 768;
}
// A set's sums: [group][row][output], padded.
constexpr int sum_pitch(int matrices) {
  return matrices * kTileOutputs + 2;
}
constexpr int sum_floats(int rows, int matrices) {
  return kProductGroups * rows * sum_pitch(matrices);
}

// A warp's ring of weights: stages of up to `tiles` tiles that arrive together. As a rule a stage
// is all that the warp does for one unit.
struct RingShape {
  int32_t tiles;
  int32_t stages;
};

// How a narrow launch is cut. Shared memory of a block: the rings, the rows, the sets' sums.
struct NarrowShape {
  RingShape ring;
  size_t ring_bytes;  // of a warp
  size_t bytes;
  int blocks;
  int sets;  // of a block
};

struct NarrowDevice {
  int multiprocessors;
  size_t shared_limit;  // of a block
};

// A product of one kind, as the launcher knows it.
struct NarrowProduct {
  WeightType type;  // of the tiles
  ProductEnd end;
  int depth;  // tiles of k
  int units;
};

inline NarrowShape narrow_shape(const NarrowDevice& device, const NarrowProduct& product, int rows,
                                int sets) {
  constexpr size_t kLeastRing = 4608;  // of a warp
  const int matrices = narrow_matrices(product.end);
  const int group = std::max((product.depth + kProductGroups - 1) / kProductGroups, 1);
  NarrowShape shape{};
  shape.sets = sets;
  shape.blocks = std::min(product.units, device.multiprocessors);
  const int turns = (product.units + shape.blocks * sets - 1) / (shape.blocks * sets);
  const size_t rest = size_t(rows) * size_t(product.depth * kTileDepth + kRowPad) * 2 +
                      size_t(sets) * size_t(sum_floats(rows, matrices)) * sizeof(float);
  const size_t warps = size_t(sets) * kProductGroups;
  // A little more than half: no two kernels that follow one another want as much.
  const size_t share = device.shared_limit * 17 / 32;
  const size_t budget = std::max(rest < share ? (share - rest) / warps : 0, kLeastRing);
  const size_t tile = tile_bytes(product.type) * size_t(matrices);
  shape.ring.tiles = std::min(group, kRingTiles / matrices);
  while (shape.ring.tiles > 1 && size_t(shape.ring.tiles) * tile * 2 > budget) {
    shape.ring.tiles /= 2;
  }
  const size_t stage = size_t(shape.ring.tiles) * tile;
  const int wanted = turns * ((group + shape.ring.tiles - 1) / shape.ring.tiles);
  shape.ring.stages = std::clamp(int(budget / stage), 1, std::min(wanted, kRingStages));
  shape.ring_bytes = size_t(shape.ring.stages) * stage;
  shape.bytes = warps * shape.ring_bytes + rest;
  return shape;
}

// Two sets where each multiprocessor has work for them and room. One may not fit either: see
// narrow_rows().
inline NarrowShape narrow_shape(const NarrowDevice& device, const NarrowProduct& product,
                                int rows) {
  if (product.units > device.multiprocessors) {
    const NarrowShape shape = narrow_shape(device, product, rows, kMostSets);
    if (shape.bytes <= device.shared_limit) return shape;
  }
  return narrow_shape(device, product, rows, 1);
}

// As many rows as fit into one launch; so do all fewer. 0: a single one is too long.
inline int narrow_rows(const NarrowDevice& device, const NarrowProduct& product) {
  int rows = kNarrowRows;
  while (rows > 0 && narrow_shape(device, product, rows).bytes > device.shared_limit) rows /= 2;
  return rows;
}

}  // namespace tinyloop::kernels
