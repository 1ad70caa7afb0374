// How the narrow product (kernels/cuda/narrow_product.cuh) is cut.
#pragma once

#include <algorithm>

#include "kernels/cuda/tile_product.h"

namespace tinyloop::kernels {

inline constexpr int kSetThreads = kProductGroups * kWarp;
inline constexpr int kMostSets = 2;
inline constexpr int kRowPad = 8;       // halves: rows of x start in different banks
inline constexpr int kRingStages = 4;   // of a ring
inline constexpr int kRingTiles = 4;    // of a ring's stage, over all matrices, at most
inline constexpr int kNarrowRows = 16;  // at most

constexpr int narrow_matrices(ProductEnd end) {
  return end == ProductEnd::swiglu ? 2 : 1;
}
constexpr bool takes_norm(ProductEnd end) {
  return end != ProductEnd::store && end != ProductEnd::add;
}
// Threads among which a multiprocessor's registers are shared out: 96 each where there is much to
// keep, else 64, so that a block of two sets of the first kind leaves room for one set of the
// second, which is the next kernel as a rule.
constexpr int register_threads(ProductEnd end, int eights) {
  return takes_norm(end) || eights > 1 ? 640 : 1024;
}
// A set's sums: [group][row][output], padded.
constexpr int sum_pitch(int matrices) {
  return matrices * kTileOutputs + 2;
}
constexpr int sum_floats(int rows, int matrices) {
  return kProductGroups * rows * sum_pitch(matrices);
}

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

inline NarrowShape narrow_shape(const NarrowDevice& device, WeightType type, ProductEnd end,
                                int rows, int depth, int units) {
  constexpr size_t kLeastRing = 4608;  // of a warp
  const int matrices = narrow_matrices(end);
  const int group = std::max((depth + kProductGroups - 1) / kProductGroups, 1);
  NarrowShape shape{};
  shape.sets = units > device.multiprocessors ? kMostSets : 1;
  shape.blocks = std::min(units, device.multiprocessors);
  const int turns = (units + shape.blocks * shape.sets - 1) / (shape.blocks * shape.sets);
  const size_t rest = size_t(rows) * size_t(depth * kTileDepth + kRowPad) * 2 +
                      size_t(shape.sets) * size_t(sum_floats(rows, matrices)) * sizeof(float);
  const size_t warps = size_t(shape.sets) * kProductGroups;
  // A little more than half: no two kernels that follow one another want as much.
  const size_t share = device.shared_limit * 17 / 32;
  const size_t budget = std::max(rest < share ? (share - rest) / warps : 0, kLeastRing);
  const size_t tile = tile_bytes(type) * size_t(matrices);
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

}  // namespace tinyloop::kernels
