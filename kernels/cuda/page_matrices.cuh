// The matrices of a head in a page (PageOrder::matrices), as they lie in shared memory: 16
// dimensions of 16 positions are four of them, 512 bytes in a row, and one load of a warp.
#pragma once

#include "kernels/cuda/copies.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/kv_page.h"

namespace tinyloop::kernels {

inline constexpr int kMatricesBytes = 512;

// Keys of the 16 dimensions of step `k`. Registers: positions 0 to 7 and 8 to 15 at dimensions 0 to
// 7, then at 8 to 15; lane (g, t) has position g and two dimensions from 2t on.
__device__ inline void load_keys(uint32_t (&r)[4], uint32_t page, int k) {
  const int lane = int(threadIdx.x) % 32;
  load_matrices(r, page + uint32_t(k * kMatricesBytes + lane * 16));
}

// Values of the 16 dimensions of step `d`. Registers: positions 0 to 7 and 8 to 15 of dimensions 0
// to 7, then of 8 to 15; lane (g, t) has dimension g at two positions from 2t on.
__device__ inline void load_values(uint32_t (&r)[4], uint32_t page, int d) {
  const int lane = int(threadIdx.x) % 32;
  load_matrices_transposed(r, page + uint32_t(d * kMatricesBytes + lane * 16));
}

// Where the number at `place` of a block of positions lies, from the first of its pages on.
template <int kDim>
__device__ inline uint32_t matrix_offset(int place, int dim) {
  return uint32_t(place / kPagePositions * kPagePositions * kDim + dim / 8 * 8 * kPagePositions +
                  place % kPagePositions * 8 + dim % 8) *
         uint32_t(sizeof(uint16_t));
}

// What copies have brought beside what a product is to see may be anything, and a factor of 0 does
// not make a number of it. The two functions put zeros there: by thread `thread` of `threads`, who
// meet afterwards. `positions`: of the block.

// In place of keys at dimensions that the head does not have.
template <int kDim>
__device__ void clear_keys(uint32_t keys, int positions, int head_dim, int thread, int threads) {
#pragma unroll 1
  for (int i = thread; i < positions * (kDim - head_dim); i += threads) {
    const uint32_t at = keys + matrix_offset<kDim>(i % positions, head_dim + i / positions);
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(uint16_t{0}) : "memory");
  }
  publish_to_copies();
}

// In place of values at positions outside [low, high) of the block that begins at `first`.
template <int kDim>
__device__ void clear_values(uint32_t values, int first, int positions, int low, int high,
                             int thread, int threads) {
#pragma unroll 1
  for (int i = thread; i < positions * (kDim / 8); i += threads) {
    const int place = i % positions, position = first + place;
    if (position >= low && position < high) continue;
    const uint32_t at = values + matrix_offset<kDim>(place, i / positions * 8);
    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory");
  }
  publish_to_copies();
}

inline constexpr uint32_t kTwoOnes = 0x3c003c00;  // halves

}  // namespace tinyloop::kernels
