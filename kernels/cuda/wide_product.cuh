// Products for more than 16 rows, on the warp-group tensor cores of compute capability 9.0.
//
// A block is two warp groups, each with 64 outputs (of the gate and of the up matrix where both are
// wanted). Weights go from memory to registers, become FP16 there and are multiplied from there: no
// weight is decoded twice for the rows of a block. Rows come through shared memory, several tiles
// ahead, by the tensor copy engine.
#pragma once

#include <cooperative_groups.h>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/product_end.cuh"
#include "kernels/cuda/tensor_map.h"

namespace tinyloop::kernels {

inline constexpr int kWideThreads = 256;
inline constexpr int kGroupOutputs = 64;  // of a warp group
inline constexpr int kWideOutputs = 2 * kGroupOutputs;
inline constexpr int kStages = 4;
inline constexpr int kRowBytes = kTileDepth * 2;
// CUtensorMap aligns the whole as the copy engine wants it.
struct WideArgs {
  CUtensorMap rows;
  ProductArgs product;
};

inline constexpr int kSumPitch = kWideOutputs + 4;  // floats: columns start in different banks

// Shared memory: the stages of rows, later the sums; with room to begin at a multiple of 1024.
constexpr size_t wide_shared_bytes(int tokens) {
  const size_t stages = size_t(kStages) * size_t(tokens) * kRowBytes;
  const size_t sums = size_t(tokens) * kSumPitch * sizeof(float);
  return (stages > sums ? stages : sums) + 1024;
}

// The compiler must not move reads of the sums across the wait for the products.
template <int kCount>
__device__ inline void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

template <WeightType kType, int kTokens, bool kSplit>
__global__ void __launch_bounds__(kWideThreads, kSplit&& kTokens <= 64 ? 2 : 1)
    wide_kernel(const __grid_constant__ WideArgs wide) {
  const ProductArgs& args = wide.product;
  namespace cg = cooperative_groups;
  constexpr int kSums = kTokens / 2;  // a thread's share of 64 x kTokens
  extern __shared__ uint8_t unaligned[];
  __shared__ CachePlace places[kTokens];
  __shared__ uint64_t arrived[kStages];  // a stage's rows
  uint8_t* memory = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  const int group = int(threadIdx.x) / 128, warp = int(threadIdx.x) % 128 / kWarp;
  const int lane = int(threadIdx.x) % kWarp;
  const int rank = kSplit ? int(blockIdx.x) % kProductGroups : 0;
  const int unit = kSplit ? int(blockIdx.x) / kProductGroups : int(blockIdx.x);
  const int first_row = int(blockIdx.y) * kTokens;
  const bool paired = args.end == ProductEnd::swiglu;

  // ---- Which outputs ----
  int part_index = paired ? group : 0;
  for (int p = 1; p < args.part_count && !paired; ++p) {
    if (unit >= args.parts[p].first_unit) part_index = p;
  }
  const ProductPart part = args.parts[part_index];
  const int unit_tiles = (paired ? kGroupOutputs : kWideOutputs) / kTileOutputs;
  const int unit_tile = (unit - (paired ? 0 : part.first_unit)) * unit_tiles;
  // Beyond the matrix the last tile stands in; its sums are not stored.
  const int row_tile = min(unit_tile + (paired ? 0 : group * 4) + warp, part.weights.row_tiles - 1);
  const int64_t tiles = int64_t{row_tile} * args.depth;
  const int begin = kSplit ? group_begin(rank, args.depth) : 0;
  const int end = kSplit ? group_begin(rank + 1, args.depth) : args.depth;

  // ---- First weights, then, once they are ready, first rows ----
  constexpr int kTileBytes = int(tile_bytes(kType)), kStageBytes = kTokens * kRowBytes;
  // FP16 weights are multiplied from the registers that they were loaded into: these must not be
  // loaded again before the products have read them.
  constexpr bool kInPlace = kType == WeightType::f16;
  const uint8_t* weights_at = part.weights.tiles + (tiles + begin) * kTileBytes;
  WeightTile<kType> ahead[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (begin + i < end) ahead[i].template load<FromStream>(weights_at + i * kTileBytes, lane);
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init_copy_barrier(arrived + i);
  }
  publish_copy_barriers();
  __syncthreads();
  wait_for_previous();
  release_next();
  for (int n = int(threadIdx.x); n < kTokens && args.end == ProductEnd::qkv; n += kWideThreads) {
    if (first_row + n < args.rows) places[n] = place_of_row(args.cache, first_row + n);
  }
  const auto load_rows = [&](int tile) {  // by one thread
    const int stage = (tile - begin) % kStages;
    copy_box(memory + stage * kStageBytes, &wide.rows, tile * kTileDepth, first_row, kStageBytes,
             arrived + stage);
  };
  if (threadIdx.x == 0) {
    for (int tile = begin; tile < min(begin + kStages - 2, end); ++tile) load_rows(tile);
  }

  // ---- Products ----
  float sums[kSums], total[kSplit ? 1 : kSums] = {};
  uint32_t a[2][4][4];
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = 0.0f;
  int add = 0;
  const uint64_t first_operand = swizzled_operand(shared_address(memory));
  int stage = 0, phase = 0;
  const auto multiply = [&](int tile, WeightTile<kType>& weights, uint32_t(&operand)[4][4]) {
    weights.decode(operand);
    const auto load_next = [&] {
      if (tile + 2 < end) {
        weights.template load<FromStream>(weights_at + 2 * kTileBytes, lane);
      }
      weights_at += kTileBytes;
    };
    if constexpr (!kInPlace) load_next();
    __syncthreads();  // the products of tile − 2 have ended everywhere
    if (threadIdx.x == 0 && tile + kStages - 2 < end) load_rows(tile + kStages - 2);
    wait_copy_barrier(arrived + stage, phase);
    const uint64_t rows = first_operand + uint64_t(stage * (kStageBytes >> 4));
    begin_products();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      wgmma_k16(sums, operand[step], rows + uint64_t(step) * 2, add | step);
    }
    commit_products();
    if constexpr (kInPlace) {
      wait_products<0>();
      load_next();
    }
    add = 1;
    stage = stage + 1 == kStages ? 0 : stage + 1;
    if (stage == 0) phase ^= 1;
  };
  int tile = begin;
  for (int g = kSplit ? rank : 0; g < (kSplit ? rank + 1 : kProductGroups); ++g) {
    const int group_end = group_begin(g + 1, args.depth);
    if (tile == group_end) continue;
    add = 0;
    for (; tile + 1 < group_end; tile += 2) {
      multiply(tile, ahead[0], a[0]);
      wait_products<1>();
      multiply(tile + 1, ahead[1], a[1]);
      wait_products<1>();
    }
    if (tile < group_end) {
      multiply(tile, ahead[0], a[0]);
      ++tile;
      const WeightTile<kType> next = ahead[0];  // the tiles ahead change places
      ahead[0] = ahead[1];
      ahead[1] = next;
    }
    wait_products<0>();
    pin(sums);
    if constexpr (!kSplit) {
#pragma unroll
      for (int s = 0; s < kSums; ++s) total[s] += sums[s];
    }
  }
  wait_products<0>();
  pin(sums);
  __syncthreads();

  // ---- Sums to shared memory, [row][output] ----
  auto* shared = reinterpret_cast<float*>(memory);
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    const int token = s / 4 * 8 + lane % 4 * 2 + s % 2;
    const int output = group * kGroupOutputs + warp * kTileOutputs + lane / 4 + s % 4 / 2 * 8;
    shared[token * kSumPitch + output] = kSplit ? sums[s] : total[kSplit ? 0 : s];
  }

  // ---- Ends ----
  const int unit_outputs = paired ? kGroupOutputs : kWideOutputs;
  const int tokens = kSplit ? kTokens / kProductGroups : kTokens;
  const int first_token = rank * tokens;
  if constexpr (kSplit) {
#if __CUDA_ARCH__ >= 900
    cg::this_cluster().sync();
#endif
  } else {
    __syncthreads();
  }
  HalfPairs halves;
  for (int i = int(threadIdx.x); i < tokens * unit_outputs / 2; i += kWideThreads) {
    const int token = first_token + i * 2 / unit_outputs, output = i * 2 % unit_outputs;
    const int row = first_row + token, row_output = unit_tile * kTileOutputs + output;
    if (row >= args.rows || row_output >= part.weights.outputs) continue;
    const ProductTarget target{part, part_index, row_start(part.y, row), places[token]};
    float2 old = {};
    if (args.end == ProductEnd::add) old = old_pair(target, row_output);
    const int gate_place = token * kSumPitch + output;
    const int sum_place = paired ? gate_place + kGroupOutputs : gate_place;
    float2 sum = {}, gate = {};
    const auto add_sums = [&](const float* from) {
      const auto next = *reinterpret_cast<const float2*>(from + sum_place);
      sum.x += next.x;
      sum.y += next.y;
      if (!paired) return;
      const auto next_gate = *reinterpret_cast<const float2*>(from + gate_place);
      gate.x += next_gate.x;
      gate.y += next_gate.y;
    };
    if constexpr (kSplit) {
#if __CUDA_ARCH__ >= 900
#pragma unroll
      for (int r = 0; r < kProductGroups; ++r) {
        add_sums(cg::this_cluster().map_shared_rank(shared, r));
      }
#endif
    } else {
      add_sums(shared);
    }
    with_end(args.end, [&](auto end_kind) {
      end_product<decltype(end_kind)::value>(args, target, row_output, sum, gate, old, halves);
    });
  }
  halves.report(args.counters);
#if __CUDA_ARCH__ >= 900
  if constexpr (kSplit) cg::this_cluster().sync();  // others still read this block's sums
#endif
}

}  // namespace tinyloop::kernels
