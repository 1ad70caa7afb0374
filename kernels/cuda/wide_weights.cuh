// Weights of the wide product (kernels/cuda/wide_product.cuh) on their way from a stage to
// operands.
#pragma once

#include <cstring>

#include "kernels/cuda/weight_tile.cuh"

namespace tinyloop::kernels {

// `kPieces` pieces of 16 bytes a lane. Lanes begin with different ones, so that eight neighbours
// meet all banks, and turn them into their order afterwards.
template <int kPieces>
__device__ inline void load_turned(uint4 (&pieces)[kPieces], const uint8_t* codes, int lane) {
  const int turn = lane * kPieces / 8 % kPieces;
  const auto* from = reinterpret_cast<const uint4*>(codes) + lane * kPieces;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) pieces[i] = from[(i + turn) % kPieces];
#pragma unroll
  for (int bit = 1; bit < kPieces; bit *= 2) {
    uint4 turned[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const uint4 &stays = pieces[i], &comes = pieces[(i + kPieces - bit) % kPieces];
      const bool moves = (turn & bit) != 0;
      turned[i] = {moves ? comes.x : stays.x, moves ? comes.y : stays.y, moves ? comes.z : stays.z,
                   moves ? comes.w : stays.w};
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) pieces[i] = turned[i];
  }
}

template <WeightType kType>
__device__ inline WeightTile<kType> shared_tile(const uint8_t* tile, int lane) {
  WeightTile<kType> weights;
  if constexpr (kType == WeightType::f16) {
    load_turned(weights.numbers, tile, lane);
  } else if constexpr (kType == WeightType::q8_0) {
    load_turned(weights.codes, tile, lane);
    weights.scales = load_8(tile + tile_code_bytes(kType) + lane / 4 * 8);
  } else {
    weights.load(tile, lane);
  }
  return weights;
}

// The compiler does not decode before this point what it finds decoded after it.
template <WeightType kType>
__device__ inline void pin(WeightTile<kType>& weights) {
  uint32_t words[sizeof(weights) / sizeof(uint32_t)];
  memcpy(words, &weights, sizeof(weights));
#pragma unroll
  for (uint32_t& word : words) asm volatile("" : "+r"(word)::"memory");
  memcpy(&weights, words, sizeof(weights));
}

}  // namespace tinyloop::kernels
