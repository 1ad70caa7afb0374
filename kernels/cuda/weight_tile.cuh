// A warp's tile of weights on its way from memory to the tensor cores (kernels/weight_tiles.h).
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/weight_tiles.h"

namespace tinyloop::kernels {

// The matrix as the kernels see it.
struct TiledMatrix {
  const uint8_t* tiles;
  int32_t outputs;
  int32_t row_tiles;
};

inline TiledMatrix tiled_matrix(const WeightMatrix& weights) {
  return {reinterpret_cast<const uint8_t*>(weights.data), weights.rows, row_tiles(weights.rows)};
}

// Calls f(std::integral_constant<WeightType, …>) for the type of the tiles of `type`.
template <class F>
void with_tile_type(WeightType type, F f) {
  switch (tile_type(type)) {
    case WeightType::q4_0:
      return f(std::integral_constant<WeightType, WeightType::q4_0>{});
    case WeightType::q4_1:
      return f(std::integral_constant<WeightType, WeightType::q4_1>{});
    case WeightType::q8_0:
      return f(std::integral_constant<WeightType, WeightType::q8_0>{});
    default:
      return f(std::integral_constant<WeightType, WeightType::f16>{});
  }
}

// ---- FP16 arithmetic on pairs -------------------------------------------------------------------

__device__ inline __half2 as_half2(uint32_t bits) {
  return *reinterpret_cast<__half2*>(&bits);
}
__device__ inline uint32_t as_bits(__half2 pair) {
  return *reinterpret_cast<uint32_t*>(&pair);
}
__device__ inline __half2 splat(float value) {
  return __float2half2_rn(value);
}
// Numbers 0 or 1 of a pair, in both places.
__device__ inline __half2 pick(uint32_t pair, int which) {
  return which ? __high2half2(as_half2(pair)) : __low2half2(as_half2(pair));
}

__device__ inline uint4 load_16(const void* shared) {
  return *static_cast<const uint4*>(shared);
}
__device__ inline uint2 load_8(const void* shared) {
  return *static_cast<const uint2*>(shared);
}

// ---- One type each ------------------------------------------------------------------------------
// load() takes where a tile begins in shared memory; decode() gives the four operands (one a step
// of 16 values of k).
//
// An FP16 number with the bits 0x6400 | u is 1024 + u, exactly, for u < 1024: codes become numbers
// by one logical operation. From there all steps but the product with the scale (and the sum with
// the minimum) are exact, so a weight is its value rounded once to FP16.

template <WeightType kType>
struct WeightTile;

// (1024 + 16q) / 16 − 64 = q, and likewise with q − 8.
struct NibbleDecoder {
  // The nibbles under the mask as numbers 1024 + …: one operation, with the constant in a register;
  // the compiler makes two of `(bits & kMask) | 0x64006400`.
  template <uint32_t kMask>
  __device__ static __half2 numbers(uint32_t bits) {
    constexpr int kMaskedOr = 0xea;  // (a & b) | c
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, %4;"
        : "=r"(r)
        : "r"(bits), "n"(kMask), "r"(0x64006400), "n"(kMaskedOr));
    return as_half2(r);
  }
  // The pair q of a step's dword: numbers at bits 4q and 4q + 16, minus `zero`.
  template <int kZero>
  __device__ static __half2 pair(uint32_t dword, int q) {
    const uint32_t shifted = q < 2 ? dword : dword >> 8;
    if (q % 2 == 0) {
      return __hsub2(numbers<0x000f000f>(shifted), splat(1024.0f + kZero));
    }
    return __hfma2(numbers<0x00f000f0>(shifted), splat(0.0625f), splat(-64.0f - kZero));
  }
};

template <>
struct WeightTile<WeightType::q4_0> {
  uint4 codes;
  uint2 scales;

  __device__ void load(const uint8_t* tile, int lane) {
    codes = load_16(tile + lane * 16);
    scales = load_8(tile + 512 + lane / 4 * 8);
  }
  __device__ void decode(uint32_t (&a)[4][4]) const {
    const uint32_t dwords[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const __half2 d[2] = {pick(scales.x, step / 2), pick(scales.y, step / 2)};
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        a[step][q] = as_bits(__hmul2(NibbleDecoder::pair<8>(dwords[step], q), d[q % 2]));
      }
    }
  }
};

template <>
struct WeightTile<WeightType::q4_1> {
  uint4 codes;
  uint4 scales;

  __device__ void load(const uint8_t* tile, int lane) {
    codes = load_16(tile + lane * 16);
    scales = load_16(tile + 512 + lane / 4 * 16);
  }
  __device__ void decode(uint32_t (&a)[4][4]) const {
    const uint32_t dwords[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const __half2 d[2] = {pick(scales.x, step / 2), pick(scales.y, step / 2)};
      const __half2 low[2] = {pick(scales.z, step / 2), pick(scales.w, step / 2)};
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        a[step][q] =
            as_bits(__hfma2(NibbleDecoder::pair<0>(dwords[step], q), d[q % 2], low[q % 2]));
      }
    }
  }
};

template <>
struct WeightTile<WeightType::q8_0> {
  uint4 codes[2];
  uint2 scales;

  __device__ void load(const uint8_t* tile, int lane) {
    codes[0] = load_16(tile + lane * 32);
    codes[1] = load_16(tile + lane * 32 + 16);
    scales = load_8(tile + 1024 + lane / 4 * 8);
  }
  __device__ void decode(uint32_t (&a)[4][4]) const {
    const uint32_t dwords[8] = {codes[0].x, codes[0].y, codes[0].z, codes[0].w,
                                codes[1].x, codes[1].y, codes[1].z, codes[1].w};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const __half2 d[2] = {pick(scales.x, step / 2), pick(scales.y, step / 2)};
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        // Two bytes, each under the high byte 0x64: 1024 + 128 + code.
        const uint32_t bits =
            __byte_perm(dwords[step * 2 + q / 2], 0x64646464, q % 2 == 0 ? 0x4140 : 0x4342);
        a[step][q] = as_bits(__hmul2(__hsub2(as_half2(bits), splat(1152.0f)), d[q % 2]));
      }
    }
  }
};

template <>
struct WeightTile<WeightType::f16> {
  uint4 numbers[4];

  __device__ void load(const uint8_t* tile, int lane) {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      numbers[step] = load_16(tile + lane * 64 + step * 16);
    }
  }
  __device__ void decode(uint32_t (&a)[4][4]) const {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      a[step][0] = numbers[step].x;
      a[step][1] = numbers[step].y;
      a[step][2] = numbers[step].z;
      a[step][3] = numbers[step].w;
    }
  }
};

}  // namespace tinyloop::kernels
