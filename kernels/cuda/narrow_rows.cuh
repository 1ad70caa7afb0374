// Rows on their way to the narrow product (kernels/cuda/narrow_product.cuh): into shared memory, in
// FP16, and the factors of their norms.
#pragma once

#include "kernels/cuda/copies.cuh"
#include "kernels/cuda/narrow_shape.h"
#include "kernels/cuda/row_norm.cuh"
#include "kernels/cuda/tile_product.h"

namespace tinyloop::kernels {

inline constexpr int kSetThreads = kProductGroups * kWarp;

// A barrier of one set's threads.
__device__ inline void sync_set(int set) {
  static_assert(kMostSets == 2);
  set == 0 ? sync_threads<1, kSetThreads>() : sync_threads<2, kSetThreads>();
}

// What a warp brings to shared memory: the columns of its group, of every `sets`th row.
struct RowShare {
  int first, end;  // columns
  int set, sets;
  int lane;
};

// They have arrived after wait_all_copies().
__device__ inline void stage_rows(const ProductArgs& args, const RowShare& share, int pitch,
                                  __half* shared) {
  const int rows = args.rows, cols = args.cols;
  const DeviceRows x = args.x;
  const int begin = share.first + share.lane * 8;
#pragma unroll 1
  for (int n = share.set; n < rows; n += share.sets) {
    const auto* from = static_cast<const __half*>(x.data) + row_start(x, n);
    const uint32_t to = shared_address(shared + n * pitch);
#pragma unroll 4
    for (int col = begin; col < share.end; col += kWarp * 8) {
      const bool valid = col < cols;
      copy_16(to + uint32_t(col) * 2, valid ? from + col : from, valid);
    }
  }
}

// Each of `warps` warps finds those of its rows.
__device__ inline void stage_factors(const ProductArgs& args, int warp, int warps, int lane,
                                     float* shared) {
#pragma unroll 1
  for (int row = warp; row < args.rows; row += warps) {
    float factor[1] = {1.0f};
    if (args.squares) {
      row_factors(args.squares, args.norm_cols, args.eps, row, 1, args.rows, lane, factor);
    }
    if (lane == 0) shared[row] = factor[0];
  }
}

}  // namespace tinyloop::kernels
