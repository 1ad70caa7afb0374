// One block of attention: 16 queries against 64 positions, on the tensor cores of one warp.
//
// Every row's result is built up in one order: blocks of 64 positions at absolute multiples, each
// with its own maximum, sum and weighted values; the blocks of a split of kAttentionSplit positions
// merged in order; the splits merged in order. Which kernel does it, and how many rows it takes
// along, changes nothing: masked positions add exact zeros, wholly masked blocks are skipped. The
// arithmetic is spelled out operation by operation, so that the compiler has no choice either.
#pragma once

#include <cuda_fp16.h>

#include "kernels/attention.h"
#include "kernels/attention_plan.h"
#include "kernels/cuda/copies.cuh"
#include "kernels/cuda/device_tools.cuh"
#include "kernels/cuda/kv_device.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/weight_tile.cuh"

namespace tinyloop::kernels {

inline constexpr int kBlockPositions = 64;
inline constexpr int kBlockPages = kBlockPositions / kPagePositions;
inline constexpr int kSplitBlocks = kAttentionSplit / kBlockPositions;
inline constexpr int kAttentionWarps = 4;
inline constexpr int kAttentionThreads = kAttentionWarps * kWarp;
static_assert(kSplitBlocks == kAttentionWarps && kWideQueries == kAttentionWarps * kNarrowQueries);

// The heads of a K/V head: division by their number, which is a power of two as a rule.
struct Group {
  int32_t heads;
  int32_t shift;  // log2, or -1

  __device__ int row(int query) const { return shift >= 0 ? query >> shift : query / heads; }
  __device__ int head(int query) const { return shift >= 0 ? query & (heads - 1) : query % heads; }
};

struct AttentionParams {
  DeviceRows q, out;
  DevicePages cache;
  DeviceCounters* counters;
  const QueryTile* tiles;
  Group group;             // heads of one K/V head
  int32_t items;           // tiles times K/V heads
  int32_t narrow_queries;  // no narrow tile has more
  int32_t parts;           // blocks of threads that share a narrow tile
  int32_t part_shift;      // log2 of the splits that each of them works on
  int32_t round_shift;     // log2 of the splits whose partial results find room at once
  int32_t is_plain;        // keys and values that 16-byte loads can take
  float scale;             // log2(e) / sqrt(head_dim)
};

// ---- Tiles --------------------------------------------------------------------------------------

// Positions [low, high) that some query of the tile attends to. Rows of a tile are consecutive: the
// first reaches farthest back, the last farthest ahead.
struct TileRange {
  int table, window, low, high;
};

__device__ inline TileRange range_of(const AttentionParams& args, const QueryTile& tile) {
  const int table = __ldcg(args.cache.tables + tile.table);
  const int window = __ldcg(args.cache.windows + tile.table);
  const int first = tile.position + args.group.row(tile.first_query);
  const int last = tile.position + args.group.row(tile.first_query + tile.queries - 1);
  return {table, window, window > 0 ? max(0, first - window + 1) : 0, last + 1};
}

__device__ inline QueryTile load_tile(const AttentionParams& args, int index) {
  const auto* from = reinterpret_cast<const int32_t*>(args.tiles + index);
  return {__ldcg(from), __ldcg(from + 1), __ldcg(from + 2), __ldcg(from + 3), __ldcg(from + 4)};
}

// Query `q` of a tile: where its head_dim elements begin in a matrix of rows.
__device__ inline int64_t query_start(const AttentionParams& args, const DeviceRows& rows,
                                      const QueryTile& tile, int kv_head, int q) {
  const int query = tile.first_query + q;
  const int head = kv_head * args.group.heads + args.group.head(query);
  return row_start(rows, tile.first_row + args.group.row(query)) +
         int64_t{head} * args.cache.head_dim;
}

// ---- Online softmax -----------------------------------------------------------------------------

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Maximum (in units of log 2, as scaled) and sum of what a row has seen; -inf, 0: nothing.
struct SoftmaxState {
  float most = -INFINITY;
  float sum = 0.0f;
};

// Takes in a later stretch of positions; the weighted values then become `keep` times their own
// plus `take` times the stretch's, where there was anything in it.
struct SoftmaxStep {
  float keep, take;
  bool any;

  __device__ void apply(float& value, float next) const {
    if (any) value = __fmaf_rn(value, keep, __fmul_rn(next, take));
  }
};
__device__ inline SoftmaxStep merge(SoftmaxState& state, const SoftmaxState& next) {
  const bool any = next.sum != 0.0f;  // NaN, too
  const float most = fmaxf(state.most, next.most);
  const SoftmaxStep step{exp2_fast(__fsub_rn(state.most, most)),
                         exp2_fast(__fsub_rn(next.most, most)), any};
  if (any) {
    state.sum = __fmaf_rn(state.sum, step.keep, __fmul_rn(next.sum, step.take));
    state.most = most;
  }
  return step;
}

// ---- Shared memory ------------------------------------------------------------------------------

// Rows of shared memory, padded so that eight of them start in different banks.
template <int kDim>
inline constexpr int kHeadPitch = kDim + 8;

// The first `count` queries of a tile → shared[count][kHeadPitch], zeros beyond the tile and the
// head's dimensions.
template <int kDim, int kThreads>
__device__ void load_queries(const AttentionParams& args, const QueryTile& tile, int kv_head,
                             int count, __half* shared, int thread) {
  constexpr int kPieces = kDim / 8;
  const int head_dim = args.cache.head_dim;
  for (int i = thread; i < count * kPieces; i += kThreads) {
    const int q = i / kPieces, d = i % kPieces * 8;
    __half* to = shared + q * kHeadPitch<kDim> + d;
    const bool valid = q < tile.queries && d < head_dim;
    const int64_t at = valid ? query_start(args, args.q, tile, kv_head, q) + d : 0;
    if (valid && !(args.is_plain && args.q.is_half && at % 8 == 0)) {
#pragma unroll 1
      for (int c = 0; c < 8; ++c) {
        to[c] = to_half_saturated(d + c < head_dim ? load_element(args.q, at + c) : 0.0f,
                                  args.counters);
      }
      continue;
    }
    const auto* from = reinterpret_cast<const uint4*>(static_cast<const __half*>(args.q.data) + at);
    *reinterpret_cast<uint4*>(to) = valid ? __ldcg(from) : uint4{};
  }
}

// Starts the copies of keys and values of positions [first, first + 64) ∩ [low, high); the others
// become zeros. By kThreads threads: whole warps, `thread` from 0.
template <int kDim, int kThreads>
__device__ void load_block(const AttentionParams& args, int table, int kv_head, int first, int low,
                           int high, __half* keys, __half* values, int thread) {
  constexpr int kPieces = kDim / 8, kPages = kBlockPages;
  constexpr int kPlaces = kThreads / kPieces;  // that the threads cover at a time
  static_assert(kThreads % kPieces == 0 && kBlockPositions % kPlaces == 0);
  const int head_dim = args.cache.head_dim;
  // The block's pages, a lane each: asked for all at once.
  const int page_position = first + thread % kWarp * kPagePositions;
  const __half* page = nullptr;
  if (thread % kWarp < kPages && page_position < high && page_position + kPagePositions > low) {
    page = args.cache.keys(table, page_position, kv_head);
  }
  const int d = thread % kPieces * 8, first_place = thread / kPieces;
  const int64_t value_offset = args.cache.value_offset();
  uint32_t to = shared_address(keys + first_place * kHeadPitch<kDim> + d);
  const uint32_t to_values = shared_address(values) - shared_address(keys);
  const bool whole = args.is_plain && first >= low && first + kBlockPositions <= high;
  constexpr int kSteps =
      kPagePositions / kPlaces;  // of a page, where a step covers no more than one
  if (kSteps > 0 && whole) {
    // As a rule: every piece is wanted.
#pragma unroll
    for (int p = 0; p < kPages; ++p) {
      const auto* from = reinterpret_cast<const __half*>(
                             __shfl_sync(~0u, reinterpret_cast<unsigned long long>(page), p)) +
                         first_place * head_dim + d;
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        copy_16(to, d < head_dim ? from : static_cast<const void*>(args.tiles), d < head_dim);
        copy_16(to + to_values,
                d < head_dim ? from + value_offset : static_cast<const void*>(args.tiles),
                d < head_dim);
        from += kPlaces * head_dim;
        to += kPlaces * kHeadPitch<kDim> * uint32_t(sizeof(__half));
      }
    }
    return;
  }
#pragma unroll 1
  for (int i = 0; i < kBlockPositions / kPlaces; ++i) {
    const int place = first_place + i * kPlaces;
    const auto* of_page = reinterpret_cast<const __half*>(
        __shfl_sync(~0u, reinterpret_cast<unsigned long long>(page), place / kPagePositions));
    const __half* from = of_page + place % kPagePositions * head_dim + d;
    const bool wanted = first + place >= low && first + place < high;
    if (args.is_plain) {
      const bool valid = wanted && d < head_dim;
      copy_16(to, valid ? from : static_cast<const void*>(args.tiles), valid);
      copy_16(to + to_values, valid ? from + value_offset : static_cast<const void*>(args.tiles),
              valid);
    } else {
      __half* at = keys + place * kHeadPitch<kDim> + d;
      __half* at_value = values + place * kHeadPitch<kDim> + d;
      for (int c = 0; c < 8; ++c) {
        const bool valid = wanted && d + c < head_dim;
        at[c] = valid ? load_half(from + c) : __float2half(0.0f);
        at_value[c] = valid ? load_half(from + value_offset + c) : __float2half(0.0f);
      }
    }
    to += kPlaces * kHeadPitch<kDim> * uint32_t(sizeof(__half));
  }
}

// ---- The block ----------------------------------------------------------------------------------

// The two rows of a lane in the 16 queries: positions [begin, end) that each attends to.
struct RowRanges {
  int begin[2], end[2];
};

__device__ inline RowRanges ranges_of(const AttentionParams& args, const QueryTile& tile,
                                      int window, int first, int lane) {
  RowRanges ranges;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int q = first + lane / 4 + i * 8;
    const int position = tile.position + args.group.row(tile.first_query + q);
    const bool valid = q < tile.queries;
    ranges.end[i] = valid ? position + 1 : 0;
    ranges.begin[i] = valid && window > 0 ? max(0, position - window + 1) : 0;
  }
  return ranges;
}

inline constexpr int kBlockEights = kBlockPositions / 8;

// Scores [8 positions][4], laid out as the sums of mma: those of masked positions become -inf.
__device__ inline void mask_scores(float (&s)[kBlockEights][4], const RowRanges& ranges,
                                   int first) {
  const int lane = int(threadIdx.x) % kWarp;
#pragma unroll
  for (int e = 0; e < kBlockEights; ++e) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int position = first + e * 8 + lane % 4 * 2 + c % 2;
      if (position < ranges.begin[c / 2] || position >= ranges.end[c / 2]) s[e][c] = -INFINITY;
    }
  }
}

// Scores → weights [8 positions][row], an operand A. state: of the lane's two rows. Without `both`
// the second row is not in use and weighs nothing.
__device__ inline void weigh(const float (&s)[kBlockEights][4], float scale, bool both,
                             uint32_t (&p)[kBlockEights][2], SoftmaxState (&state)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (i == 1 && !both) {
#pragma unroll
      for (int e = 0; e < kBlockEights; ++e) p[e][i] = 0;
      state[i] = {};
      continue;
    }
    // A score that is not a number shows in its weight, not in the maximum.
    float most = -INFINITY;
#pragma unroll
    for (int e = 0; e < kBlockEights; ++e) most = fmaxf(most, fmaxf(s[e][i * 2], s[e][i * 2 + 1]));
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
      most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    }
    most = __fmul_rn(most, scale);
    const float zero = most == -INFINITY ? 0.0f : most;
    float sum = 0.0f;
#pragma unroll
    for (int e = 0; e < kBlockEights; ++e) {
      const float w0 = exp2_fast(__fmaf_rn(s[e][i * 2], scale, -zero));
      const float w1 = exp2_fast(__fmaf_rn(s[e][i * 2 + 1], scale, -zero));
      sum = __fadd_rn(sum, __fadd_rn(w0, w1));
      p[e][i] = as_bits(__floats2half2_rn(w0, w1));
    }
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
      sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
    }
    state[i] = {most, sum};
  }
}

// Operand A of the weights of the block's 16 positions `k`.
struct WeightOperand {
  uint32_t a[4];
};
__device__ inline WeightOperand weight_operand(const uint32_t (&p)[kBlockEights][2], int k) {
  return {{p[k * 2][0], p[k * 2][1], p[k * 2 + 1][0], p[k * 2 + 1][1]}};
}

// Scores and weights of the block at `first`, then take(d, c): the weighted values of dimensions
// 8d …, laid out as the sums of mma. state: of the lane's two rows.
template <int kDim, class Take>
__device__ void attend_block(const uint32_t (&q)[kDim / 16][4], const __half* keys,
                             const __half* values, const RowRanges& ranges, int first, float scale,
                             SoftmaxState (&state)[2], Take take) {
  const int lane = int(threadIdx.x) % kWarp;

  // ---- Scores ----
  float s[kBlockEights][4] = {};
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
#pragma unroll
    for (int e = 0; e < kBlockEights; e += 2) {
      uint32_t b[4];
      const int place = (e + lane / 16) * 8 + lane % 8, d = k * 16 + lane / 8 % 2 * 8;
      load_matrices(b, shared_address(keys + place * kHeadPitch<kDim> + d));
      mma_16x8x16(s[e], q[k], b[0], b[1]);
      mma_16x8x16(s[e + 1], q[k], b[2], b[3]);
    }
  }
  // As a rule no position is masked for any row of the warp.
  const bool unmasked =
      __all_sync(~0u, first >= max(ranges.begin[0], ranges.begin[1]) &&
                          first + kBlockPositions <= min(ranges.end[0], ranges.end[1]));
  if (!unmasked) mask_scores(s, ranges, first);
  uint32_t p[kBlockEights][2];
  weigh(s, scale, true, p, state);

  // ---- Weighted values ----
#pragma unroll
  for (int d = 0; d < kDim / 8; d += 2) {
    float c[2][4] = {};
#pragma unroll
    for (int k = 0; k < kBlockPositions / 16; ++k) {
      uint32_t b[4];
      const int place = k * 16 + lane / 8 % 2 * 8 + lane % 8, at = (d + lane / 16) * 8;
      load_matrices_transposed(b, shared_address(values + place * kHeadPitch<kDim> + at));
      const WeightOperand weights = weight_operand(p, k);
      mma_16x8x16(c[0], weights.a, b[0], b[1]);
      mma_16x8x16(c[1], weights.a, b[2], b[3]);
    }
    take(d, c[0]);
    take(d + 1, c[1]);
  }
}

// Operand A of the 16 queries in shared memory.
template <int kDim>
__device__ void load_query_operand(const __half* shared, uint32_t (&q)[kDim / 16][4]) {
  const int lane = int(threadIdx.x) % kWarp;
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    load_matrices(q[k],
                  shared_address(shared + lane % 16 * kHeadPitch<kDim> + k * 16 + lane / 16 * 8));
  }
}

}  // namespace tinyloop::kernels
