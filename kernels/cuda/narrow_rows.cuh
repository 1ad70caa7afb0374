// Rows on their way to the narrow product (kernels/cuda/narrow_product.cuh): into shared memory, in
// FP16, normed where the product takes the norm along.
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
  int group;
  int set, sets;
  int lane;
};

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
  wait_all_copies();
}

// What the norm of a warp's columns needs beside the rows; may be read ahead of them. A lane holds
// quads of a row as kernels/cuda/row_norm.cuh says; groups have up to kQuads · 128 columns.
template <int kQuads>
struct NormWeight {
  float4 quads[kQuads];
  float inverse_cols;
  int64_t start;  // of row min(lane, rows − 1)

  __device__ NormWeight(const ProductArgs& args, const RowShare& share)
      : inverse_cols(inverse_of(args.cols)),
        start(row_start(args.x, min(share.lane, args.rows - 1))) {
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const int c = share.first + share.lane * 4 + i * kNormStride;
      quads[i] = c < min(share.end, args.cols)
                     ? __ldg(reinterpret_cast<const float4*>(args.norm_weight + c))
                     : float4{};
    }
  }
};

// The rows in f32, normed on the way. A set's warps together: a row's scale needs all its groups.
// kRows: that a warp keeps in registers.
template <int kRows, int kQuads>
__device__ inline void stage_normed_some(const ProductArgs& args, const RowShare& share, int pitch,
                                         __half* shared, float (*group_sums)[kProductGroups],
                                         const NormWeight<kQuads>& weight) {
  const int rows = args.rows, sets = share.sets, begin = share.first + share.lane * 4;
  const auto* x = static_cast<const float*>(args.x.data) + begin;
  const float eps = args.eps;
  shared += begin;
  // Of a row: what the lane reads, and what it writes, zeros beyond the columns included.
  bool reads[kQuads], writes[kQuads];
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    reads[i] = begin + i * kNormStride < min(share.end, args.cols);
    writes[i] = begin + i * kNormStride < share.end;
  }
  HalfPairs halves;
  for (int first_row = share.set; first_row < rows; first_row += kRows * sets) {
    float4 kept[kRows][kQuads];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = first_row + r * sets;
      const float* from = x + __shfl_sync(~0u, weight.start, row % kWarp);
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        kept[r][i] = row < rows && reads[i]
                         ? __ldcg(reinterpret_cast<const float4*>(from + i * kNormStride))
                         : float4{};
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = first_row + r * sets;
      const float sum = warp_sum(squares_of(kept[r], share.first, share.end));
      if (share.lane == 0 && row < rows) group_sums[row][share.group] = sum;
    }
    sync_set(share.set);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = first_row + r * sets;
      if (row >= rows) break;
      const float scale = norm_scale(group_sums[row], weight.inverse_cols, eps);
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const float4 y = normed(kept[r][i], scale, weight.quads[i]);
        const uint2 bits = {halves(y.x, y.y), halves(y.z, y.w)};
        if (writes[i]) *reinterpret_cast<uint2*>(shared + row * pitch + i * kNormStride) = bits;
      }
    }
  }
  halves.report(args.counters);
}

template <int kQuads>
__device__ inline void stage_normed_rows(const ProductArgs& args, const RowShare& share, int pitch,
                                         __half* shared, float (*group_sums)[kProductGroups],
                                         const NormWeight<kQuads>& weight) {
  if (args.rows <= share.sets) {
    stage_normed_some<1>(args, share, pitch, shared, group_sums, weight);
  } else {
    stage_normed_some<8 / kQuads>(args, share, pitch, shared, group_sums, weight);
  }
}

}  // namespace tinyloop::kernels
