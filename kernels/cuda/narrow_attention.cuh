// Attention of narrow tiles: up to 16 queries, as decoding rows have.
//
// The warps of a block of threads share the positions of a tile: each takes one block of a split,
// and goes through its blocks by itself; what it gets of each waits in shared memory until the
// splits are merged. Where there are few tiles, the splits of each are spread over the blocks of a
// cluster.
#pragma once

#include <cooperative_groups.h>

#include <algorithm>

#include "kernels/cuda/partial_results.cuh"
#include "kernels/cuda/position_block.cuh"

namespace tinyloop::kernels {

// The block of one warp at `first` → a partial result. query(k, q): operand A of step k. The values
// of kAhead pages are on the way at a time. kBoth: whether the tile has more than eight queries, so
// that both rows of a lane may be in use.
template <int kAhead, bool kBoth, int kDim, class Query>
__device__ void attend(const AttentionParams& args, const QueryTile& tile, const TileRange& range,
                       const PositionBlock<kDim>& block, int first, Query query,
                       typename PositionBlock<kDim>::Keys& keys, float* partial) {
  constexpr int kSide = 4;  // products side by side
  float s[kBlockEights][4] = {};
#pragma unroll
  for (int half = 0; half < kDim / 64; ++half) {
    if (half > 0) block.load_keys(half, 0, keys);
    uint32_t q[4][4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      query(half * 4 + k, q[k]);
      if (!kBoth) q[k][1] = q[k][3] = 0;
    }
#pragma unroll
    for (int from = 0; from < kBlockEights; from += kSide) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int e = from; e < from + kSide; ++e) {
          mma_16x8x16(s[e], q[k], keys[e][k].x, keys[e][k].y);
        }
      }
    }
  }
  typename PositionBlock<kDim>::PageValues values[kBlockPages];
#pragma unroll
  for (int k = 0; k < kAhead; ++k) block.load_values(0, k, values[k]);
  // As a rule no position is masked for any row: neither for the first, which is the earliest, nor
  // for the last.
  const int least_end = tile.position + args.group.row(tile.first_query) + 1;
  if (first + kBlockPositions > least_end ||
      (range.window > 0 && first < range.high - range.window)) {
    mask_scores(s, ranges_of(args, tile, range.window, 0, int(threadIdx.x) % kWarp), first);
  }
  uint32_t p[kBlockEights][2];
  SoftmaxState state[2];
  weigh(s, args.scale, kBoth, p, state);
  put_states<kDim, kBoth>(state, partial, tile.queries);
#pragma unroll
  for (int half = 0; half < kDim / 64; ++half) {
    float o[8][4] = {};
#pragma unroll
    for (int k = 0; k < kBlockPages; ++k) {
      const WeightOperand weights = weight_operand(p, k);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        mma_16x8x16(o[j], weights.a, value_pair(values[k][0], values[k][1], j),
                    value_pair(values[k][2], values[k][3], j));
      }
      if (k + kAhead < kBlockPages) {
        block.load_values(half, k + kAhead, values[k + kAhead]);
      } else if (half + 1 < kDim / 64) {
        block.load_values(half + 1, k + kAhead - kBlockPages, values[k + kAhead - kBlockPages]);
      }
    }
    put_values<kDim, kBoth>(o, partial + half * 64, tile.queries);
  }
}

// ---- The kernel ---------------------------------------------------------------------------------

// Shared memory: the queries, as operands; a partial result of each warp for each split of a round;
// that of the whole tile, or of each split of a part.
template <int kDim>
inline constexpr size_t kNarrowQueryBytes = size_t(kDim / 16) * kWarp * sizeof(uint4);
template <int kDim>
size_t narrow_attention_bytes(const AttentionParams& args) {
  const int32_t kept = args.parts > 1 ? 1 << args.part_shift : 1;
  const size_t partials = size_t((kAttentionWarps << args.round_shift) + kept);
  return kNarrowQueryBytes<kDim> +
         partials * size_t(args.narrow_queries) * kPartialPitch<kDim> * sizeof(float);
}
// With part_shift and narrow_queries known.
template <int kDim>
int32_t narrow_round_shift(const AttentionParams& args) {
  constexpr int32_t kMostShift = 2, kMostFloats = 9 << 10;
  const int32_t split_floats = kAttentionWarps * args.narrow_queries * kPartialPitch<kDim>;
  int32_t shift = std::min(kMostShift, args.part_shift);
  while (shift > 0 && split_floats << shift > kMostFloats) --shift;
  return shift;
}

// The splits [first, end) of all parts, in order; by the first block of the cluster. The shared
// memory of the others takes its time to answer: several splits are asked for at once.
template <int kDim>
__device__ Piece<kDim> merge_parts(const AttentionParams& args, float* kept, int partial_floats,
                                   int first, int end, int index) {
  Piece<kDim> total;
#if __CUDA_ARCH__ >= 900
  constexpr int kAhead = 4;
  const auto cluster = cooperative_groups::this_cluster();
#pragma unroll 1
  for (int split = first; split < end; split += kAhead) {
    Piece<kDim> next[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (split + i >= end) break;
      const float* of_part =
          cluster.map_shared_rank(kept, unsigned((split + i) >> args.part_shift));
      next[i] = Piece<kDim>::of(
          of_part + ((split + i) & ((1 << args.part_shift) - 1)) * partial_floats, index);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) total.take(next[i]);  // what is not there changes nothing
  }
#endif
  return total;
}

template <int kDim>
__global__ void __launch_bounds__(kAttentionThreads, kDim == 64 ? 4 : 3)
    narrow_attention(const AttentionParams args) {
  constexpr int kAhead = kWarp / kBlockPages;  // splits of which a warp has the pages at hand
  extern __shared__ __align__(16) uint8_t shared[];
  __shared__ const std::byte* all_pages[kAttentionWarps][kWarp];
  __shared__ int64_t out_starts[kNarrowQueries];
  auto* queries = reinterpret_cast<uint4*>(shared);
  auto* partials = reinterpret_cast<float*>(shared + kNarrowQueryBytes<kDim>);
  const int partial_floats = args.narrow_queries * kPartialPitch<kDim>;
  float* kept = partials + (kAttentionWarps << args.round_shift) * partial_floats;
  const int thread = int(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;

  // ---- First keys ----
  // Ahead of the wait (device_tools.cuh): of the cache, positions before those of this pass's rows
  // are complete (kernels/kv_page.h).
  const int part = int(blockIdx.x) % args.parts, item = int(blockIdx.x) / args.parts;
  const int kv_head = item % args.cache.kv_heads;
  const QueryTile tile = load_tile(args, item / args.cache.kv_heads);
  const TileRange range = range_of(args, tile);
  const int tile_first = range.low / kAttentionSplit;
  const int tile_end = (range.high + kAttentionSplit - 1) / kAttentionSplit;
  const int first_split = max(tile_first, part << args.part_shift);
  const int end_split = min(tile_end, (part + 1) << args.part_shift);
  const std::byte** pages = all_pages[warp];

  // The warp's block of a split.
  const auto first_of = [&](int split) { return split * kAttentionSplit + warp * kBlockPositions; };
  const auto wanted = [&](int split) {
    return split < end_split && first_of(split) < range.high &&
           first_of(split) + kBlockPositions > range.low;
  };
  const auto pages_of = [&](int split) {
    return pages + (split - first_split) % kAhead * kBlockPages;
  };
  const auto block_of = [&](int split) {
    return PositionBlock<kDim>(args, kv_head, pages_of(split), first_of(split), range.low,
                               range.high);
  };
  // Finds the pages of the splits from `split` on, every kAhead splits.
  const auto find_pages = [&](int split) {
    const int of_split = split + lane / kBlockPages;
    __syncwarp();
    pages[lane] =
        of_split < end_split
            ? page_at(args, range, first_of(of_split) + lane % kBlockPages * kPagePositions)
            : nullptr;
    __syncwarp();
  };
  // What is not loaded at once comes to the second-level cache.
  const auto announce_block = [&](int split, int first_lane) {
    if (lane < first_lane || lane >= 2 * kBlockPages) return;
    const std::byte* page = pages_of(split)[lane % kBlockPages];
    if (page != nullptr) announce(args, page, kv_head, lane >= kBlockPages);
  };

  find_pages(first_split);
  typename PositionBlock<kDim>::Keys keys;
  PositionBlock<kDim>::clear(keys);
  if (wanted(first_split)) {
    block_of(first_split).load_keys(0, 0, keys);
    announce_block(first_split, kDim == 64 ? kBlockPages : 0);
  }
  if (first_split + 1 < end_split) announce_block(first_split + 1, 0);
  wait_for_previous();
  release_next();
  const __half* const rows[2] = {query_row(args, tile, kv_head, lane / 4),
                                 query_row(args, tile, kv_head, lane / 4 + 8)};
  for (int k = warp; k < kDim / 16; k += kAttentionWarps) {
    uint32_t q[4];
    load_query_step<kDim>(rows, tile.queries > 8, args.cache.head_dim, k, q);
    queries[k * kWarp + lane] = {q[0], q[1], q[2], q[3]};
  }
  if (thread < tile.queries) {
    out_starts[thread] = query_start(args, args.out, tile, kv_head, thread);
  }
  // Those of this step's rows, which have been read too early.
  if (wanted(first_split)) block_of(first_split).load_keys(0, tile.position, keys);
  __syncthreads();

  const int pieces = tile.queries * Piece<kDim>::kOfRow;
  HalfPairs halves;
  const auto store = [&](const Piece<kDim>& total, int index) {
    store_piece(args, out_starts[Piece<kDim>::row(index)], total, index, halves);
  };
  const int round_mask = (1 << args.round_shift) - 1;
#pragma unroll 1
  for (int split = first_split; split < end_split; ++split) {
    // ---- One block a warp ----
    const int of_round = (split - first_split) & round_mask;
    if (wanted(split)) {
      const auto query = [&](int k, uint32_t(&q)[4]) {
        const uint4 step = queries[k * kWarp + lane];
        q[0] = step.x, q[1] = step.y, q[2] = step.z, q[3] = step.w;
      };
      float* partial = partials + (of_round * kAttentionWarps + warp) * partial_floats;
      if (tile.queries > 8) {
        attend<2, true>(args, tile, range, block_of(split), first_of(split), query, keys, partial);
      } else {
        attend<3, false>(args, tile, range, block_of(split), first_of(split), query, keys, partial);
      }
    }
    const int next = split + 1;
    if ((next - first_split) % kAhead == 0) find_pages(next);
    PositionBlock<kDim>::clear(keys);
    if (wanted(next)) block_of(next).load_keys(0, 0, keys);
    if (next + 1 < end_split && (next + 1 - first_split) % kAhead != 0) {
      announce_block(next + 1, 0);
    }
    if (of_round != round_mask && next < end_split) continue;

    // ---- The round's splits, in order ----
    __syncthreads();
    const int first = split - of_round;
    for (int from = 0; from < pieces; from += kAttentionThreads) {
      const int index = from + thread;
      Piece<kDim> total;
      if (index < pieces) {
        if (args.parts == 1 && first > first_split) total = Piece<kDim>::of(kept, index);
#pragma unroll 1
        for (int s = first; s <= split; ++s) {
          const auto merged = merge_blocks<kDim>(
              range, s, partials + (s - first) * kAttentionWarps * partial_floats, partial_floats,
              index);
          if (args.parts == 1) {
            total.take(merged);
          } else {
            merged.put(kept + (s - (part << args.part_shift)) * partial_floats, index);
          }
        }
        if (args.parts == 1 && next >= end_split) store(total, index);
      }
      if (args.parts == 1 && next < end_split) {
        __syncwarp();
        if (index < pieces) total.put(kept, index);
      }
    }
    if (next < end_split) __syncthreads();
  }

  // ---- The parts' splits, in order ----
#if __CUDA_ARCH__ >= 900
  if (args.parts > 1) {
    cooperative_groups::this_cluster().sync();
    if (part == 0) {
      for (int index = thread; index < pieces; index += kAttentionThreads) {
        store(merge_parts<kDim>(args, kept, partial_floats, tile_first, tile_end, index), index);
      }
    }
    cooperative_groups::this_cluster().sync();  // until here the first block reads the others'
  }
#else
  if (args.parts > 1) __trap();  // never launched without CudaContext::has_warp_groups()
#endif
  halves.report(args.counters);
}

}  // namespace tinyloop::kernels
