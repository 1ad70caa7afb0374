// The ends of products: what finished sums turn into.
#pragma once

#include "kernels/cuda/row_norm.cuh"
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

// Where dimension `dim` of a head's keys (part 1) or values (part 2) belongs. Four neighbours from
// a multiple of 4 on lie side by side.
__device__ inline __half* cache_address(const ProductArgs& args, const CachePlace& place, int part,
                                        int head, int dim) {
  return place.keys + (part == 2 ? args.cache.value_offset() : 0) + head * args.cache.head_stride +
         DevicePages::matrix_place(dim);
}

__device__ inline void end_qkv(const ProductArgs& args, const ProductTarget& to, int output,
                               float2 sum, float2 turn, HalfPairs& halves) {
  if (to.part_index < 2) sum = turned(sum, turn);
  if (to.part_index == 0) {
    return store_pair(to.part.y, to.row_start + output, sum, true, halves);
  }
  const int head = quotient(output, args.cache.head_dim);
  __half* at =
      cache_address(args, to.place, to.part_index, head, output - head * args.cache.head_dim);
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

// Outputs `output` (even) and the next of one row. `factor`: of the row's norm. `gate` is read by
// swiglu; `beside` is what was there for add, the pair's turn for qkv. What add has written, zeros
// beyond the outputs.
template <ProductEnd kEnd>
__device__ inline float2 end_product(const ProductArgs& args, const ProductTarget& to, int output,
                                     float factor, float2 sum, float2 gate, float2 beside,
                                     HalfPairs& halves) {
  sum = {sum.x * factor, sum.y * factor};
  if constexpr (kEnd == ProductEnd::qkv) {
    end_qkv(args, to, output, sum, beside, halves);
    return {};
  } else {
    if constexpr (kEnd == ProductEnd::swiglu) gate = {gate.x * factor, gate.y * factor};
    const bool both = output + 1 < to.part.weights.outputs;
    const float2 y = {ended<kEnd>(args, sum.x, gate.x, beside.x),
                      ended<kEnd>(args, sum.y, gate.y, beside.y)};
    store_pair(to.part.y, to.row_start + output, y, both, halves);
    return {y.x, both ? y.y : 0.0f};
  }
}

// The weights of the next norm for outputs `output` (even) and the next.
__device__ inline float2 next_weights(const ProductArgs& args, int output) {
  const bool both = output + 1 < args.parts[0].weights.outputs;
  return {__ldg(args.next.weight + output), both ? __ldg(args.next.weight + output + 1) : 0.0f};
}

// What the next norm wants of outputs `output` (even) and the next of row `row`, which add has
// written: of the row in FP16. The squares are the caller's to sum up.
__device__ inline void put_next(const ProductArgs& args, int row, int output, float2 y,
                                float2 weights, HalfPairs& halves) {
  const NextNorm& next = args.next;
  const DeviceRows rows{next.rows, nullptr, next.stride, 1};
  store_pair(rows, int64_t{row} * next.stride + output,
             {__fmul_rn(y.x, weights.x), __fmul_rn(y.y, weights.y)},
             output + 1 < args.parts[0].weights.outputs, halves);
}

}  // namespace tinyloop::kernels
