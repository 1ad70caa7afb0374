// The scale of a root-mean-square norm, in the one order that all kernels share: the columns are
// cut into the groups of kernels/cuda/tile_product.h; within a group lane l takes elements 4l … 4l
// + 3 of every 128, in order; the lanes' sums are added by halves, then the groups' in order.
#pragma once

#include "kernels/cuda/device_tools.cuh"
#include "kernels/cuda/tile_product.h"

namespace tinyloop::kernels {

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
// From the groups' sums of squares to the factor of the row. The approximate root is within 2 units
// of the last place (CUDA C++ Programming Guide, mathematical functions), and the same everywhere.
__device__ inline float norm_scale(const float* group_sums, float inverse_cols, float eps) {
  float total = 0.0f;
#pragma unroll
  for (int g = 0; g < kProductGroups; ++g) total += group_sums[g];
  return rsqrtf(__fmaf_rn(total, inverse_cols, eps));
}

}  // namespace tinyloop::kernels
