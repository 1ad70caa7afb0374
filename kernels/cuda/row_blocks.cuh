// The blocks of threads that work on one row together: a cluster of them, or one alone. What they
// find is brought together in an order of its own, so it has to be sums of integers or greatest
// values: then their number changes nothing.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "kernels/cuda/device_tools.cuh"

namespace tinyloop::kernels {

inline constexpr int kRowThreads = 1024;  // of a block
inline constexpr int kRowWarps = kRowThreads / kWarp;
inline constexpr int kMostRowBlocks = 8;  // of a cluster

// A block's part of a row: numbers [first, end); `first` is a multiple of four.
struct RowPart {
  const float* row;
  int first, end;

  // Calls body(index, number) for the thread's numbers: four that follow one another at a time,
  // which one load brings where they lie so.
  template <class Body>
  __device__ void for_tokens(Body body) const {
    const bool aligned = reinterpret_cast<uintptr_t>(row) % sizeof(float4) == 0;
#pragma unroll 2
    for (int t = first + int(threadIdx.x) * 4; t < end; t += kRowThreads * 4) {
      float x[4];
      load(t, aligned, x);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (t + i < end) body(t + i, x[i]);
      }
    }
  }
  // The four from `t` on; what lies beyond the end is −inf.
  __device__ void load(int t, bool aligned, float (&x)[4]) const {
    if (aligned && t + 4 <= end) {
      const float4 four = __ldcg(reinterpret_cast<const float4*>(row + t));
      x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = t + i < end ? __ldcg(row + t + i) : -INFINITY;
  }
};

// Shared memory of each block.
struct RowBlocksMemory {
  uint64_t warps[kRowWarps];
  uint64_t found[2];  // by this block, of the last two reductions
};

class RowBlocks {
 public:
  __device__ explicit RowBlocks(RowBlocksMemory& memory) : memory_(memory) {}

#if __CUDA_ARCH__ >= 900
  __device__ int count() const {
    return int(cooperative_groups::this_cluster().num_blocks());
  }
  __device__ int rank() const {
    return int(cooperative_groups::this_cluster().block_rank());
  }
  __device__ void sync() const {
    cooperative_groups::this_cluster().sync();
  }
  // The same object in the shared memory of block `rank`.
  template <class T>
  __device__ T* of_block(T* object, int rank) const {
    return cooperative_groups::this_cluster().map_shared_rank(object, rank);
  }
#else
  __device__ int count() const {
    return 1;
  }
  __device__ int rank() const {
    return 0;
  }
  __device__ void sync() const {
    __syncthreads();
  }
  template <class T>
  __device__ T* of_block(T* object, int) const {
    return object;
  }
#endif

  // Over all threads of all blocks; every thread calls it, and has the result.
  __device__ uint64_t greatest(uint64_t value) {
    return reduce(value, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
  }
  __device__ uint64_t sum(uint64_t value) {
    return reduce(value, [](uint64_t a, uint64_t b) { return a + b; });
  }

 private:
  template <class Combine>
  __device__ uint64_t reduce(uint64_t value, Combine combine) {
    const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
    value = over_warp(value, combine);
    if (lane == 0) memory_.warps[warp] = value;
    __syncthreads();
    if (warp == 0) {
      value = over_warp(memory_.warps[lane], combine);
      if (lane == 0) memory_.found[turn_] = value;
    }
    sync();  // nobody comes to the next but one before all have read this one
    value = *of_block(&memory_.found[turn_], 0);
    for (int block = 1; block < count(); ++block) {
      value = combine(value, *of_block(&memory_.found[turn_], block));
    }
    turn_ ^= 1;
    return value;
  }
  template <class Combine>
  __device__ static uint64_t over_warp(uint64_t value, Combine combine) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
      value = combine(value, uint64_t(__shfl_xor_sync(~0u, value, step)));
    }
    return value;
  }
  static_assert(kRowWarps == kWarp);

  RowBlocksMemory& memory_;
  int turn_ = 0;
};

}  // namespace tinyloop::kernels
