// The ends of products: what finished sums turn into.
#pragma once

#include "kernels/cuda/tile_product.h"

namespace tinyloop::kernels {

// value / divisor, where the divisor is a power of two as a rule.
__device__ inline int quotient(int value, int divisor) {
  return (divisor & (divisor - 1)) == 0 ? value >> (31 - __clz(divisor)) : value / divisor;
}

// Where a row's keys and values go.
struct CachePlace {
  __half* keys;  // of head 0 at the row's position
  int position;
};

__device__ inline CachePlace place_of_row(const DevicePages& cache, int row) {
  const int position = cache.position(row);
  return {cache.keys(cache.table(row), position, 0), position};
}

// What the outputs of one thread have in common.
struct ProductTarget {
  ProductPart part;
  int part_index;
  int64_t row_start;  // of y
  CachePlace place;   // qkv
};

// How RoPE turns outputs `output` (even) and the next.
__device__ inline float2 turn_of_pair(const ProductArgs& args, const ProductTarget& to,
                                      int output) {
  const int head_dim = args.cache.head_dim;
  const int dim = output - quotient(output, head_dim) * head_dim;
  return __ldg(args.cos_sin + (int64_t{to.place.position} * head_dim + dim) / 2);
}

__device__ inline void end_qkv(const ProductArgs& args, const ProductTarget& to, int output,
                               float2 sum, float2 turn, HalfPairs& halves) {
  const int head_dim = args.cache.head_dim;
  if (to.part_index < 2) sum = turned(sum, turn);
  if (to.part_index == 0) {
    return store_pair(to.part.y, to.row_start + output, sum, true, halves);
  }
  const int head = quotient(output, head_dim);
  __half* at = to.place.keys + (to.part_index == 2 ? args.cache.value_offset() : 0) +
               head * args.cache.head_stride + DevicePages::matrix_place(output - head * head_dim);
  *reinterpret_cast<uint32_t*>(at) = halves(sum.x, sum.y);  // head_dim is even
}

template <ProductEnd kEnd>
__device__ inline float ended(const ProductArgs& args, float sum, float gate, float old) {
  if constexpr (kEnd == ProductEnd::add) return old + sum;
  if constexpr (kEnd == ProductEnd::swiglu) return silu(gate) * sum;
  if constexpr (kEnd == ProductEnd::relu2) return squared_relu(sum);
  return args.softcap == 0.0f ? sum : args.softcap * tanhf(sum / args.softcap);
}

// What is there before `add`.
__device__ inline float2 old_pair(const ProductTarget& to, int output) {
  const float* at = static_cast<const float*>(to.part.y.data) + to.row_start + output;
  float2 old = {};
  if (output < to.part.weights.outputs) old.x = __ldcg(at);
  if (output + 1 < to.part.weights.outputs) old.y = __ldcg(at + 1);
  return old;
}

// Outputs `output` (even) and the next of one row. `gate` is read by swiglu; `beside` is what was
// there for add, the pair's turn for qkv.
template <ProductEnd kEnd>
__device__ inline void end_product(const ProductArgs& args, const ProductTarget& to, int output,
                                   float2 sum, float2 gate, float2 beside, HalfPairs& halves) {
  if constexpr (kEnd == ProductEnd::qkv) {
    end_qkv(args, to, output, sum, beside, halves);
  } else {
    store_pair(
        to.part.y, to.row_start + output,
        {ended<kEnd>(args, sum.x, gate.x, beside.x), ended<kEnd>(args, sum.y, gate.y, beside.y)},
        output + 1 < to.part.weights.outputs, halves);
  }
}

}  // namespace tinyloop::kernels
