// Small tools of all kernels: overlapped starts, sums over a warp, rows in device memory.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/cuda_context.h"
#include "kernels/row_view.h"

namespace tinyloop::kernels {

// ---- Overlapped starts --------------------------------------------------------------------------
// A kernel may begin while the one ahead of it still runs. It calls wait_for_previous() before it
// writes anything or reads what the op ahead wrote, and release_next() right after that: the next
// kernel may begin. On devices before 9.0 both do nothing.
//
// Ahead of its wait a kernel may read
//   weights, which are constant;
//   arrays that the host staged for the step: the first kernel behind their upload does not overlap
//   with it (LaunchList::may_overlap), so they have arrived before any op's kernel begins;
//   what ops before the one ahead wrote: that one has passed its own wait, so they have ended.

__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline void release_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- Sums ---------------------------------------------------------------------------------------

inline constexpr int kWarp = 32;

// The sum over the warp in one fixed order, in every lane.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

// ---- Activations (kernels/ffn_activation.h) -----------------------------------------------------

// By the device's approximate exponential and quotient, each within a few units of the last place:
// the ends of wide products are bound by instructions.
__device__ inline float silu(float z) {
  return __fdividef(z, 1.0f + __expf(-z));
}
__device__ inline float squared_relu(float z) {
  const float positive = z < 0.0f ? 0.0f : z;  // NaN stays NaN
  return positive * positive;
}

// ---- RoPE (kernels/rope.h) ----------------------------------------------------------------------

__device__ inline float2 turned(float2 pair, float2 turn) {
  return {__fmaf_rn(pair.x, turn.x, -__fmul_rn(pair.y, turn.y)),
          __fmaf_rn(pair.x, turn.y, __fmul_rn(pair.y, turn.x))};
}

// ---- Rows ---------------------------------------------------------------------------------------

// A RowView without padding, for kernel arguments. f32 or f16.
struct DeviceRows {
  void* data;
  const int32_t* index;
  int32_t stride;
  int32_t is_half;
};

inline DeviceRows device_rows(const RowView& view) {
  return {view.data, view.index, view.stride, view.type == ScalarType::f16 ? 1 : 0};
}

// Whether every row of f32 begins at a multiple of 16 bytes.
inline bool is_aligned_f32(const RowView& view) {
  return view.type == ScalarType::f32 && view.stride % 4 == 0 &&
         reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
}

__device__ inline int64_t row_start(const DeviceRows& rows, int row) {
  return int64_t{rows.index ? __ldcg(rows.index + row) : row} * rows.stride;
}

// Read past the first-level cache: a kernel that began early must not meet lines of an older step.
// As a number of 16 bits: the overload for __half lets the compiler move the read ahead of a wait.
__device__ inline __half load_half(const __half* at) {
  return __ushort_as_half(__ldcg(reinterpret_cast<const unsigned short*>(at)));
}
__device__ inline float load_element(const DeviceRows& rows, int64_t at) {
  if (rows.is_half) return __half2float(load_half(static_cast<const __half*>(rows.data) + at));
  return __ldcg(static_cast<const float*>(rows.data) + at);
}

// FP16 with values beyond its range cut to it and counted; NaN stays NaN.
__device__ inline __half to_half_saturated(float value, DeviceCounters* counters) {
  constexpr float kMost = 65504.0f;
  if (fabsf(value) > kMost) {
    atomicAdd(&counters->saturated, 1ull);
    value = copysignf(kMost, value);
  }
  return __float2half_rn(value);
}

// The same for two numbers at a time, with the counting left to report(), once a thread.
class HalfPairs {
 public:
  __device__ uint32_t operator()(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);  // beyond the range: infinite
    const __half2 most = __float2half2_rn(65504.0f);
    const __half2 cut = __hmax2_nan(__hmin2_nan(pair, most), __hneg2(most));
    const auto bits = *reinterpret_cast<const uint32_t*>(&cut);
    any_ |= (*reinterpret_cast<const uint32_t*>(&pair) ^ bits) & finite_or_nan(cut);
    return bits;
  }
  __device__ void report(DeviceCounters* counters) const {
    if (any_ != 0) atomicAdd(&counters->saturated, 1ull);
  }

 private:
  // NaN may change its bits on the way: not a cut.
  __device__ static uint32_t finite_or_nan(__half2 pair) { return __heq2_mask(pair, pair); }

  uint32_t any_ = 0;
};

__device__ inline void store_element(const DeviceRows& rows, int64_t at, float value,
                                     DeviceCounters* counters) {
  if (rows.is_half) {
    static_cast<__half*>(rows.data)[at] = to_half_saturated(value, counters);
  } else {
    static_cast<float*>(rows.data)[at] = value;
  }
}

// Two neighbours of a row, the first at an even place of it.
__device__ inline void store_pair(const DeviceRows& rows, int64_t at, float2 value, bool both,
                                  HalfPairs& halves) {
  if (rows.is_half) {
    auto* to = static_cast<__half*>(rows.data) + at;
    const uint32_t bits = halves(value.x, both ? value.y : 0.0f);
    if (both && (reinterpret_cast<uintptr_t>(to) & 3) == 0) {
      *reinterpret_cast<uint32_t*>(to) = bits;
    } else {
      to[0] = __ushort_as_half(uint16_t(bits));
      if (both) to[1] = __ushort_as_half(uint16_t(bits >> 16));
    }
    return;
  }
  auto* to = static_cast<float*>(rows.data) + at;
  if (both && (reinterpret_cast<uintptr_t>(to) & 7) == 0) {
    *reinterpret_cast<float2*>(to) = value;
  } else {
    to[0] = value.x;
    if (both) to[1] = value.y;
  }
}

}  // namespace tinyloop::kernels
