#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention_block.cuh"
#include "kernels/cuda/narrow_attention.cuh"

namespace tinyloop::kernels {

namespace {

// ---- Streams ------------------------------------------------------------------------------------
// One tile from its first position to its last. Either four warps work on one wide tile, 16 queries
// each, and share the keys and values they read; or, where there are many narrow tiles, each warp
// works on one of its own.

template <int kDim, int kTileWarps>
struct StreamShape {
  static constexpr int kWarps = kTileWarps == 1 && kDim > 64 ? 2 : kAttentionWarps;  // of a block
  static constexpr int kThreads = kTileWarps * kWarp;                                // of a tile
  static constexpr int kTiles = kWarps / kTileWarps;                                 // of a block
  static constexpr int kQueries = kTileWarps * kNarrowQueries;
  static constexpr int kBlockHalves = kBlockPositions * kHeadPitch<kDim>;
  // Queries, and two stages of keys and values.
  static constexpr int kTileHalves = kQueries * kHeadPitch<kDim> + 4 * kBlockHalves;
  static constexpr size_t kBytes = size_t(kTiles) * kTileHalves * sizeof(__half);
};

template <int kDim, int kTileWarps>
__global__ void __launch_bounds__(StreamShape<kDim, kTileWarps>::kWarps* kWarp)
    stream_attention(const AttentionParams args) {
  using Shape = StreamShape<kDim, kTileWarps>;
  extern __shared__ __align__(16) __half memory[];
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  const int own = warp / kTileWarps, tile_warp = warp % kTileWarps;
  const int thread = tile_warp * kWarp + lane;
  // The longest contexts tend to come last.
  const int item = args.items - 1 - (int(blockIdx.x) * Shape::kTiles + own);
  if (item < 0) {
    wait_for_previous();
    release_next();
    return;
  }
  const auto sync = [] {
    if constexpr (kTileWarps == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  };
  const int kv_head = item % args.cache.kv_heads;
  const QueryTile tile = load_tile(args, item / args.cache.kv_heads);
  const TileRange range = range_of(args, tile);
  const int first_block = range.low / kBlockPositions;
  const int end_block = (range.high + kBlockPositions - 1) / kBlockPositions;

  __half* queries = memory + own * Shape::kTileHalves;
  __half* stages = queries + Shape::kQueries * kHeadPitch<kDim>;
  const auto load = [&](int block) {
    __half* keys = stages + block % 2 * 2 * Shape::kBlockHalves;
    load_block<kDim, Shape::kThreads>(args, range.table, kv_head, block * kBlockPositions,
                                      range.low, range.high, keys, keys + Shape::kBlockHalves,
                                      thread);
  };
  // Positions before those of this pass's rows are complete (kernels/kv_page.h).
  const bool early = (first_block + 1) * kBlockPositions <= tile.position;
  if (early) load(first_block);
  wait_for_previous();
  release_next();
  if (!early) load(first_block);
  commit_copies();
  load_queries<kDim, Shape::kThreads>(args, tile, kv_head, Shape::kQueries, queries, thread);
  sync();
  uint32_t q[kDim / 16][4];
  load_query_operand<kDim>(queries + tile_warp * kNarrowQueries * kHeadPitch<kDim>, q);
  const RowRanges ranges = ranges_of(args, tile, range.window, tile_warp * kNarrowQueries, lane);
  const int warp_end = __reduce_max_sync(~0u, max(ranges.end[0], ranges.end[1]));

  float total[kDim / 8][4] = {}, split[kDim / 8][4] = {};
  SoftmaxState total_state[2], split_state[2];
  for (int block = first_block; block < end_block; ++block) {
    if (block + 1 < end_block) load(block + 1);
    commit_copies();
    wait_copies<1>();
    sync();
    const int first = block * kBlockPositions;
    const __half* keys = stages + block % 2 * 2 * Shape::kBlockHalves;
    if (first < warp_end) {
      SoftmaxState state[2];
      SoftmaxStep step[2];
      bool fresh = true;
      attend_block<kDim>(q, keys, keys + Shape::kBlockHalves, ranges, first, args.scale, state,
                         [&](int d, const float(&c)[4]) {
                           if (fresh) {
                             step[0] = merge(split_state[0], state[0]);
                             step[1] = merge(split_state[1], state[1]);
                             fresh = false;
                           }
#pragma unroll
                           for (int i = 0; i < 4; ++i) {
                             step[i / 2].apply(split[d][i], c[i]);
                           }
                         });
    }
    if (block % kSplitBlocks == kSplitBlocks - 1 || block + 1 == end_block) {
      const SoftmaxStep step[2] = {merge(total_state[0], split_state[0]),
                                   merge(total_state[1], split_state[1])};
#pragma unroll
      for (int d = 0; d < kDim / 8; ++d) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          step[i / 2].apply(total[d][i], split[d][i]);
          split[d][i] = 0.0f;
        }
      }
      split_state[0] = split_state[1] = {};
    }
    sync();
  }

  // ---- Outputs, a row of the lane at a time ----
  HalfPairs halves;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int query = tile_warp * kNarrowQueries + lane / 4 + i * 8;
    if (query >= tile.queries) continue;
    const int64_t start = query_start(args, args.out, tile, kv_head, query);
#pragma unroll
    for (int d = 0; d < kDim / 8; ++d) {
      const int dim = d * 8 + lane % 4 * 2;
      if (dim >= args.cache.head_dim) continue;
      store_pair(args.out, start + dim,
                 {total[d][i * 2] / total_state[i].sum, total[d][i * 2 + 1] / total_state[i].sum},
                 dim + 1 < args.cache.head_dim, halves);
    }
  }
  halves.report(args.counters);
}

// ---- Launchers ----------------------------------------------------------------------------------

template <int kDim, int kTileWarps>
void launch_stream(CudaContext& cuda, AttentionParams params, const QueryTile* tiles,
                   int32_t count) {
  using Shape = StreamShape<kDim, kTileWarps>;
  params.tiles = tiles;
  params.items = count * params.cache.kv_heads;
  cuda.launch(stream_attention<kDim, kTileWarps>,
              {unsigned((params.items + Shape::kTiles - 1) / Shape::kTiles), Shape::kWarps * kWarp,
               uint32_t(Shape::kBytes)},
              params);
}

// With narrow_queries known; `parts` divides `splits`, both are powers of two.
template <int kDim>
void cut_splits(AttentionParams& params, int32_t splits, int32_t parts) {
  params.parts = parts;
  params.part_shift = std::countr_zero(uint32_t(splits / parts));
  params.round_shift = narrow_round_shift<kDim>(params);
}

// Whether it was possible: queries as operands take them, and room for partial results.
template <int kDim>
bool attend_narrow(CudaContext& cuda, AttentionParams params, const QueryTiles& tiles) {
  constexpr int32_t kMostParts = 8;  // blocks of a cluster
  if (!params.is_plain || !params.q.is_half || params.q.stride % 8 != 0 ||
      reinterpret_cast<uintptr_t>(params.q.data) % 16 != 0) {
    return false;
  }
  // Rounded up to powers of two, so that growing contexts change the launch seldom.
  const auto most = int32_t(std::bit_ceil(uint32_t(tiles.most_context)));
  const int32_t splits = (most + kAttentionSplit - 1) / kAttentionSplit;
  params.tiles = tiles.narrow;
  params.items = tiles.narrow_count * params.cache.kv_heads;
  const int32_t wanted = (2 * cuda.sm_count() + params.items - 1) / params.items;
  const int32_t parts =
      cuda.has_warp_groups()
          ? std::min({int32_t(std::bit_ceil(uint32_t(wanted))), splits, kMostParts})
          : 1;
  cut_splits<kDim>(params, splits, parts);
  // Each of several parts keeps what it has of every split, until they are merged: of very long
  // contexts too much. One part merges as it goes, in the same order.
  if (narrow_attention_bytes<kDim>(params) > cuda.shared_limit()) {
    cut_splits<kDim>(params, splits, 1);
  }
  if (narrow_attention_bytes<kDim>(params) > cuda.shared_limit()) return false;
  cuda.launch(narrow_attention<kDim>,
              {unsigned(params.items * params.parts), kAttentionThreads,
               uint32_t(narrow_attention_bytes<kDim>(params)), uint32_t(params.parts)},
              params);
  return true;
}

template <int kDim>
void launch_attention(CudaContext& cuda, const QueryTiles& tiles, const AttentionParams& params) {
  if (tiles.wide_count > 0) {
    launch_stream<kDim, kAttentionWarps>(cuda, params, tiles.wide, tiles.wide_count);
  }
  if (tiles.narrow_count == 0) return;
  // Streams keep a device busy once each multiprocessor has a few.
  const bool many = tiles.narrow_count * params.cache.kv_heads >= 2 * cuda.sm_count();
  if (many && StreamShape<kDim, 1>::kBytes <= cuda.shared_limit()) {
    launch_stream<kDim, 1>(cuda, params, tiles.narrow, tiles.narrow_count);
  } else if (!attend_narrow<std::max(kDim, 64)>(cuda, params, tiles)) {
    launch_stream<kDim, kAttentionWarps>(cuda, params, tiles.narrow, tiles.narrow_count);
  }
}

// A narrow tile has all queries of one row or more, or, of more than fit, some of one row.
int32_t most_narrow_queries(const QueryTiles& tiles, int32_t rows, int32_t group) {
  const int32_t most_rows = std::max(1, rows - tiles.narrow_count + 1);
  return most_rows < kNarrowQueries ? std::min(kNarrowQueries, group * most_rows) : kNarrowQueries;
}

}  // namespace

void attention_cuda(CudaContext& cuda, const AttentionArgs& args) {
  const KvLayout& layout = args.cache.layout;
  TINYLOOP_CHECK(layout.type == ScalarType::f16 && layout.key_order == KeyOrder::by_position);
  TINYLOOP_CHECK(layout.head_dim <= kMostCudaHeadDim && args.heads % layout.kv_heads == 0);
  if (args.rows == 0) return;
  TINYLOOP_CHECK(args.cache.tiles.narrow_count + args.cache.tiles.wide_count > 0);
  auto params = argument_of<AttentionParams>();
  params.q = device_rows(args.q);
  params.out = device_rows(args.out);
  params.cache = device_pages(args.cache);
  params.counters = cuda.counters();
  const int32_t group = args.heads / layout.kv_heads;
  params.group = {group,
                  std::has_single_bit(uint32_t(group)) ? std::countr_zero(uint32_t(group)) : -1};
  params.narrow_queries = most_narrow_queries(args.cache.tiles, args.rows, group);
  params.is_plain = layout.head_dim % 8 == 0 && args.cache.layer_offset % 16 == 0 ? 1 : 0;
  params.scale = float(1.4426950408889634 / std::sqrt(double(layout.head_dim)));
  if (layout.head_dim <= 32) return launch_attention<32>(cuda, args.cache.tiles, params);
  if (layout.head_dim <= 64) return launch_attention<64>(cuda, args.cache.tiles, params);
  launch_attention<kMostCudaHeadDim>(cuda, args.cache.tiles, params);
}

}  // namespace tinyloop::kernels
