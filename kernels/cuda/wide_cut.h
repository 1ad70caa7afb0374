// How a launch of the wide product (kernels/cuda/wide_product.cuh) is cut. Plain C++, as
// product_order.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/product_order.h"
#include "kernels/weight_tiles.h"

namespace tinyloop::kernels {

inline constexpr int kWideOutputs = 128;     // of a block
inline constexpr int kGroupOutputs = 64;     // of a warp group; of each matrix where there are two
inline constexpr int kMostSplitTokens = 64;  // of a block where k is split

// Whether so few rows as the narrow product takes are faster in the wide one, with k split: FP16
// weights, which keep the narrow one's rings short, and products that leave it few units of work.
constexpr bool prefers_wide(WeightType type, ProductEnd end, int rows) {
  const bool plain = type == WeightType::f16;
  if (end == ProductEnd::add) return rows >= (plain ? 4 : 8);
  return end == ProductEnd::swiglu && plain && rows > 8;
}

// Rows of a block, and whether each group of k has a block of its own.
struct WideCut {
  int32_t tokens;
  bool split;

  bool operator==(const WideCut&) const = default;
};

// Blocks for which a multiprocessor has registers. Where there are two and k is not split, the
// other one is of the next kernel, which brings its weights while this one works: two of the same
// would share the tensor cores of one multiprocessor while another has none.
constexpr int wide_blocks(const WideCut& cut) {
  return cut.split || cut.tokens <= 64 ? 2 : 1;
}

struct WideProduct {
  WeightType type;  // of the tiles
  int32_t units;    // of kWideOutputs outputs
  int32_t depth;    // tiles of k
  int32_t rows;
};

// Microseconds of a launch, about, as measured on one H200: only that one cut is faster than
// another matters. A block has a beginning and an end, and tiles of k between them; those that
// share a multiprocessor share its tensor cores, too.
inline double wide_time(int multiprocessors, const WideProduct& product, const WideCut& cut) {
  struct Pace {
    double ends, tile;
  };
  const int32_t row_blocks = (product.rows + cut.tokens - 1) / cut.tokens;
  const int32_t blocks = product.units * row_blocks * (cut.split ? kProductGroups : 1);
  if (cut.split) {
    const double begin = cut.tokens <= 32 ? 1.5 : 3.0;
    const Pace pace = cut.tokens <= 32 ? Pace{3.8, 0.61} : Pace{3.9, 0.83};
    const double turns = double(blocks) / (2 * multiprocessors);
    return begin + turns * (pace.ends + pace.tile * product.depth / kProductGroups);
  }
  const bool decodes = product.type != WeightType::f16;
  const Pace pace = cut.tokens <= 32   ? Pace{4.2, decodes ? 0.21 : 0.28}
                    : cut.tokens <= 64 ? Pace{5.1, decodes ? 0.245 : 0.28}
                                       : Pace{7.5, decodes ? 0.31 : 0.36};
  const int32_t turns = (blocks + multiprocessors - 1) / multiprocessors;
  return turns * (pace.ends + pace.tile * product.depth);
}

// The fastest one.
inline WideCut wide_cut(int multiprocessors, const WideProduct& product) {
  constexpr WideCut kCuts[] = {{32, true}, {32, false}, {64, true}, {64, false}, {128, false}};
  WideCut best = kCuts[0];
  double least = wide_time(multiprocessors, product, best);
  for (const WideCut& cut : kCuts) {
    const double time = wide_time(multiprocessors, product, cut);
    if (time >= least) continue;
    least = time;
    best = cut;
  }
  return best;
}

}  // namespace tinyloop::kernels
