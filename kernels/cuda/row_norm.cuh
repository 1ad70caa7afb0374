// Root-mean-square norms, apart from and folded into products.
//
// A norm of its own (rms_norm) has one order of sums: the columns are cut into the groups of
// kernels/cuda/tile_product.h; within a group lane l takes elements 4l … 4l + 3 of every 128, in
// order; the lanes' sums are added by halves, then the groups' in order.
//
// A folded norm has no kernel. W · (x · s · w) = s · (W · (x · w)), s being the factor of the row:
// who writes x also writes x · w in FP16 and the sums of squares of every 16 columns, and who reads
// it scales its sums by s. Squares: of two neighbours, then by halves; the sums of 16 columns: lane
// l takes sums 4l … 4l + 3 of every 128, in order, then the lanes by halves.
#pragma once

#include "kernels/cuda/device_tools.cuh"
#include "kernels/cuda/product_order.h"
#include "kernels/cuda/row_squares.h"

namespace tinyloop::kernels {

// ---- A norm of its own --------------------------------------------------------------------------

inline constexpr int kNormStride = 4 * kWarp;
inline constexpr int kNormedQuads = 4;  // of a lane, that kernels keep in registers

__device__ inline float add_squares(float sum, float4 v) {
  sum = __fmaf_rn(v.x, v.x, sum);
  sum = __fmaf_rn(v.y, v.y, sum);
  sum = __fmaf_rn(v.z, v.z, sum);
  return __fmaf_rn(v.w, v.w, sum);
}

// Of a lane's first quads, which begin at column `first`, those ahead of `end`.
template <int kQuads>
__device__ inline float squares_of(const float4 (&kept)[kQuads], int first, int end) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    if (first + i * kNormStride < end) sum = add_squares(sum, kept[i]);
  }
  return sum;
}

// Elements col … col + 3 of a row that begins at `start`; zeros beyond `cols`.
__device__ inline float4 load_four(const DeviceRows& rows, int64_t start, int col, int cols,
                                   bool aligned) {
  if (aligned && !rows.is_half && col + 4 <= cols) {
    return __ldcg(
        reinterpret_cast<const float4*>(static_cast<const float*>(rows.data) + start + col));
  }
  float4 v = {};
  if (col < cols) v.x = load_element(rows, start + col);
  if (col + 1 < cols) v.y = load_element(rows, start + col + 1);
  if (col + 2 < cols) v.z = load_element(rows, start + col + 2);
  if (col + 3 < cols) v.w = load_element(rows, start + col + 3);
  return v;
}

// As it is stored: rounded to FP16 afterwards.
__device__ inline float4 normed(float4 v, float scale, float4 weight) {
  return {__fmul_rn(__fmul_rn(v.x, scale), weight.x), __fmul_rn(__fmul_rn(v.y, scale), weight.y),
          __fmul_rn(__fmul_rn(v.z, scale), weight.z), __fmul_rn(__fmul_rn(v.w, scale), weight.w)};
}

__device__ inline float inverse_of(int cols) {
  return __frcp_rn(float(cols));
}
// From the sum of squares to the factor of the row. The approximate root is within 2 units of the
// last place (CUDA C++ Programming Guide, mathematical functions), and the same everywhere.
__device__ inline float norm_factor(float squares, float inverse_cols, float eps) {
  return rsqrtf(__fmaf_rn(squares, inverse_cols, eps));
}
__device__ inline float norm_scale(const float* group_sums, float inverse_cols, float eps) {
  float total = 0.0f;
#pragma unroll
  for (int g = 0; g < kProductGroups; ++g) total += group_sums[g];
  return norm_factor(total, inverse_cols, eps);
}

// ---- A folded norm ------------------------------------------------------------------------------

__device__ inline float pair_squares(float x, float y) {
  return __fmaf_rn(y, y, __fmul_rn(x, x));
}

// The sum of the squares of 16 columns, from those of the pairs that 8 neighbouring lanes have, or
// from the sums of two pairs that 4 have; `lanes`: those that take part.
template <int kLanes>
__device__ inline float unit_squares(float squares, uint32_t lanes) {
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) squares += __shfl_xor_sync(lanes, squares, step);
  return squares;
}

// Elements col … col + 3 of a row of y that begins at `start`: v · weight, in FP16; nothing beyond
// `cols`.
__device__ inline void put_prepared(const DeviceRows& y, int64_t start, int col, int cols,
                                    bool aligned, float4 v, const float* weight,
                                    HalfPairs& halves) {
  if (col >= cols) return;
  if (aligned) {
    const float4 w = __ldg(reinterpret_cast<const float4*>(weight + col));
    *reinterpret_cast<uint2*>(static_cast<__half*>(y.data) + start + col) = {
        halves(__fmul_rn(v.x, w.x), __fmul_rn(v.y, w.y)),
        halves(__fmul_rn(v.z, w.z), __fmul_rn(v.w, w.w))};
    return;
  }
  const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    if (col + i >= cols) break;
    const bool both = col + i + 1 < cols;
    const float second = both ? __fmul_rn(values[i + 1], __ldg(weight + col + i + 1)) : 0.0f;
    store_pair(y, start + col + i, {__fmul_rn(values[i], __ldg(weight + col + i)), second}, both,
               halves);
  }
}

// The factors of kRows rows, by one warp: first, first + stride … of `rows`; 0 beyond. Every lane
// has them.
template <int kRows>
__device__ inline void row_factors(const float* squares, int cols, float eps, int first, int stride,
                                   int rows, int lane, float (&factors)[kRows]) {
  const int count = square_units(cols), pitch = square_pitch(cols);
#pragma unroll
  for (int r = 0; r < kRows; ++r) factors[r] = 0.0f;
#pragma unroll 1
  for (int begin = 0; begin < count; begin += kNormStride) {
    const int i = begin + lane * 4;
    float4 v[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = first + r * stride;
      v[r] = row < rows && i < count
                 ? __ldcg(reinterpret_cast<const float4*>(squares + row * pitch + i))
                 : float4{};
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (i < count) factors[r] += v[r].x;
      if (i + 1 < count) factors[r] += v[r].y;
      if (i + 2 < count) factors[r] += v[r].z;
      if (i + 3 < count) factors[r] += v[r].w;
    }
  }
  const float inverse = inverse_of(cols);
#pragma unroll
  for (int r = 0; r < kRows; ++r) factors[r] = norm_factor(warp_sum(factors[r]), inverse, eps);
}

}  // namespace tinyloop::kernels
