#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention_block.cuh"

namespace tinyloop::kernels {

namespace {

// Positions [low, high) that some query of the tile attends to. Rows of a tile are consecutive: the
// first reaches farthest back, the last farthest ahead.
struct TileRange {
  int table, window, low, high;
};

__device__ TileRange range_of(const AttentionParams& args, const QueryTile& tile) {
  const int table = __ldcg(args.cache.tables + tile.table);
  const int window = __ldcg(args.cache.windows + tile.table);
  const int first = tile.position + args.group.row(tile.first_query);
  const int last = tile.position + args.group.row(tile.first_query + tile.queries - 1);
  return {table, window, window > 0 ? max(0, first - window + 1) : 0, last + 1};
}

__device__ QueryTile load_tile(const AttentionParams& args, int index) {
  const auto* from = reinterpret_cast<const int32_t*>(args.tiles + index);
  return {__ldcg(from), __ldcg(from + 1), __ldcg(from + 2), __ldcg(from + 3), __ldcg(from + 4)};
}

__device__ void store_output(const AttentionParams& args, const QueryTile& tile, int kv_head, int q,
                             int d, float value) {
  store_element(args.out, query_start(args, args.out, tile, kv_head, q) + d, value, args.counters);
}

// ---- Few tiles ----------------------------------------------------------------------------------
// The warps of a block share the positions of a narrow tile: each takes one block of a split. The
// splits of a tile may be spread over several blocks of threads; the last of them to arrive merges
// what all have left behind, in order.

// Smallest pieces of a tile that are handed on: [16][kDim + 2], the state behind the values.
template <int kDim>
inline constexpr int kPartialPitch = kDim + 2;
template <int kDim>
inline constexpr int kPartialFloats = kNarrowQueries* kPartialPitch<kDim>;

template <int kDim>
constexpr size_t narrow_attention_bytes() {
  const size_t head = size_t(kHeadPitch<kDim>) * sizeof(__half);
  return kNarrowQueries * head + kAttentionWarps * 2 * kBlockPositions * head;
}

// The elements [query][dimension] of a tile that a thread merges; `count` elements are in use.
template <int kDim>
struct Elements {
  static constexpr int kCount = kNarrowQueries * kDim / kAttentionThreads;
  float value[kCount] = {};
  SoftmaxState state[kCount];

  __device__ static int place(int i) { return int(threadIdx.x) + i * kAttentionThreads; }

  // A later stretch, `load`ed from shared or device memory.
  template <class Load>
  __device__ void take(const float* next, int count, Load load) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i * kAttentionThreads >= count) break;
      const float* row = next + place(i) / kDim * kPartialPitch<kDim>;
      const SoftmaxStep step = merge(state[i], {load(row + kDim), load(row + kDim + 1)});
      step.apply(value[i], load(row + place(i) % kDim));
    }
  }
  __device__ void take(const Elements& next, int count) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i * kAttentionThreads >= count) break;
      merge(state[i], next.state[i]).apply(value[i], next.value[i]);
    }
  }
  __device__ void put(float* to, int count) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i * kAttentionThreads >= count) break;
      float* row = to + place(i) / kDim * kPartialPitch<kDim>;
      row[place(i) % kDim] = value[i];
      if (place(i) % kDim == 0) {
        row[kDim] = state[i].most;
        row[kDim + 1] = state[i].sum;
      }
    }
  }
};

template <int kDim>
__global__ void __launch_bounds__(kAttentionThreads) narrow_attention(const AttentionParams args) {
  extern __shared__ __align__(16) __half memory[];
  __shared__ bool is_last;
  constexpr int kBlockHalves = kBlockPositions * kHeadPitch<kDim>;
  wait_for_previous();
  release_next();
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  const int item = int(blockIdx.x), kv_head = item % args.cache.kv_heads;
  const QueryTile tile = load_tile(args, item / args.cache.kv_heads);
  const TileRange range = range_of(args, tile);
  const int first_split = max(range.low / kAttentionSplit, int(blockIdx.y) * args.part_splits);
  const int end_split = min((range.high + kAttentionSplit - 1) / kAttentionSplit,
                            (int(blockIdx.y) + 1) * args.part_splits);

  __half* queries = memory;
  __half* keys = memory + kNarrowQueries * kHeadPitch<kDim> + warp * 2 * kBlockHalves;
  __half* values = keys + kBlockHalves;
  auto* partial = reinterpret_cast<float*>(keys);  // once the block is done with
  static_assert(kPartialFloats<kDim> * sizeof(float) <= 2 * kBlockHalves * sizeof(__half));
  const RowRanges ranges = ranges_of(args, tile, range.window, 0, lane);
  load_queries<kDim, kAttentionThreads>(args, tile, kv_head, kNarrowQueries, queries,
                                        int(threadIdx.x));
  __syncthreads();
  uint32_t q[kDim / 16][4];
  load_query_operand<kDim>(queries, q);

  Elements<kDim> total;
  const int count = tile.queries * kDim;
  float* left_behind = args.partials + int64_t{item} * args.splits * kPartialFloats<kDim>;
  for (int split = first_split; split < end_split; ++split) {
    // ---- One block a warp ----
    const int first = split * kAttentionSplit + warp * kBlockPositions;
    SoftmaxState state[2];
    float* rows[2] = {partial + lane / 4 * kPartialPitch<kDim>,
                      partial + (lane / 4 + 8) * kPartialPitch<kDim>};
    if (first < range.high && first + kBlockPositions > range.low) {
      load_block<kDim, kWarp>(args, range.table, kv_head, first, range.low, range.high, keys,
                              values, lane);
      wait_all_copies();
      __syncwarp();
      float o[kDim / 8][4];
      attend_block<kDim>(q, keys, values, ranges, first, args.scale, state,
                         [&](int d, const float(&c)[4]) {
#pragma unroll
                           for (int i = 0; i < 4; ++i) o[d][i] = c[i];
                         });
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (lane / 4 + i / 2 * 8 >= tile.queries) continue;
#pragma unroll
        for (int d = 0; d < kDim / 8; ++d) rows[i / 2][d * 8 + lane % 4 * 2 + i % 2] = o[d][i];
      }
    }
    if (lane % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        rows[i][kDim] = state[i].most;
        rows[i][kDim + 1] = state[i].sum;
      }
    }
    __syncthreads();

    // ---- The split's blocks, in order ----
    Elements<kDim> merged_split;
    const auto* first_partial =
        reinterpret_cast<const float*>(memory + kNarrowQueries * kHeadPitch<kDim>);
#pragma unroll
    for (int w = 0; w < kAttentionWarps; ++w) {
      merged_split.take(first_partial + w * kBlockHalves, count,  // 2 halves a float
                        [](const float* at) { return *at; });
    }
    if (args.parts == 1) {
      total.take(merged_split, count);
    } else {
      merged_split.put(left_behind + split * kPartialFloats<kDim>, count);
    }
    __syncthreads();
  }

  // ---- The last block of the tile merges the splits ----
  if (args.parts > 1) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      is_last = atomicAdd(args.arrivals + item, 1u) == unsigned(args.parts - 1);
      if (is_last) args.arrivals[item] = 0;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    const int end = (range.high + kAttentionSplit - 1) / kAttentionSplit;
    for (int split = range.low / kAttentionSplit; split < end; ++split) {
      total.take(left_behind + split * kPartialFloats<kDim>, count,
                 [](const float* at) { return __ldcg(at); });
    }
  }
#pragma unroll
  for (int i = 0; i < Elements<kDim>::kCount; ++i) {
    const int at = Elements<kDim>::place(i);
    if (at / kDim >= tile.queries || at % kDim >= args.cache.head_dim) continue;
    store_output(args, tile, kv_head, at / kDim, at % kDim, total.value[i] / total.state[i].sum);
  }
}

// ---- Streams ------------------------------------------------------------------------------------
// One tile from its first position to its last. Either four warps work on one wide tile, 16 queries
// each, and share the keys and values they read; or, where there are many narrow tiles, each warp
// works on one of its own.

template <int kDim, int kTileWarps>
struct StreamShape {
  static constexpr int kWarps = kTileWarps == 1 && kDim > 64 ? 2 : kAttentionWarps;  // of a block
  static constexpr int kThreads = kTileWarps * kWarp;                                // of a tile
  static constexpr int kQueries = kTileWarps * kNarrowQueries;
  static constexpr int kBlockHalves = kBlockPositions * kHeadPitch<kDim>;
  // Queries, and two stages of keys and values.
  static constexpr int kTileHalves = kQueries * kHeadPitch<kDim> + 4 * kBlockHalves;
  static constexpr size_t kBytes = size_t(kWarps / kTileWarps) * kTileHalves * sizeof(__half);
};

template <int kDim, int kTileWarps>
__global__ void __launch_bounds__(StreamShape<kDim, kTileWarps>::kWarps* kWarp)
    stream_attention(const AttentionParams args) {
  using Shape = StreamShape<kDim, kTileWarps>;
  extern __shared__ __align__(16) __half memory[];
  wait_for_previous();
  release_next();
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  const int own = warp / kTileWarps, tile_warp = warp % kTileWarps;
  const int thread = tile_warp * kWarp + lane;
  // The longest contexts tend to come last.
  const int item = args.items - 1 - (int(blockIdx.x) * (Shape::kWarps / kTileWarps) + own);
  if (item < 0) return;
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
  load(first_block);
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
  constexpr int32_t kTiles = Shape::kWarps / kTileWarps;  // of a block
  params.tiles = tiles;
  params.items = count * params.cache.kv_heads;
  cuda.launch(stream_attention<kDim, kTileWarps>,
              {unsigned((params.items + kTiles - 1) / kTiles), Shape::kWarps * kWarp,
               uint32_t(Shape::kBytes)},
              params);
}

constexpr size_t kMostPartials = size_t{64} << 20;

// Few tiles: the splits of each are spread over several blocks.
template <int kDim>
void launch_narrow(CudaContext& cuda, AttentionParams params, const QueryTiles& tiles) {
  // Rounded up, so that growing contexts change the launch seldom.
  const int32_t most = int32_t(std::bit_ceil(uint32_t(tiles.most_context)));
  const int32_t splits = (most + kAttentionSplit - 1) / kAttentionSplit;
  params.items = tiles.narrow_count * params.cache.kv_heads;
  const int32_t wanted =
      std::clamp((2 * cuda.sm_count() + params.items - 1) / params.items, 1, splits);
  params.tiles = tiles.narrow;
  params.splits = splits;
  params.part_splits = (splits + wanted - 1) / wanted;
  params.parts = (splits + params.part_splits - 1) / params.part_splits;
  if (params.parts > 1) {
    const size_t bytes =
        size_t(params.items) * size_t(splits) * kPartialFloats<kDim> * sizeof(float);
    std::byte* partials = bytes <= kMostPartials ? cuda.try_workspace(bytes) : nullptr;
    if (!partials) {
      // No room: a stream needs none.
      return launch_stream<kDim, kAttentionWarps>(cuda, params, tiles.narrow, tiles.narrow_count);
    }
    params.partials = reinterpret_cast<float*>(partials);
    params.arrivals = cuda.arrivals(size_t(params.items));
  }
  cuda.launch(narrow_attention<kDim>,
              {{unsigned(params.items), unsigned(params.parts)},
               kAttentionThreads,
               uint32_t(narrow_attention_bytes<kDim>())},
              params);
}

template <int kDim>
void launch_attention(CudaContext& cuda, const QueryTiles& tiles, const AttentionParams& params) {
  if (tiles.wide_count > 0) {
    launch_stream<kDim, kAttentionWarps>(cuda, params, tiles.wide, tiles.wide_count);
  }
  if (tiles.narrow_count == 0) return;
  // Streams keep a device busy once each multiprocessor has a few.
  const bool many = tiles.narrow_count * params.cache.kv_heads >= 2 * cuda.sm_count();
  if (narrow_attention_bytes<kDim>() > cuda.shared_limit()) {
    return launch_stream<kDim, kAttentionWarps>(cuda, params, tiles.narrow, tiles.narrow_count);
  }
  if (many && StreamShape<kDim, 1>::kBytes <= cuda.shared_limit()) {
    launch_stream<kDim, 1>(cuda, params, tiles.narrow, tiles.narrow_count);
  } else {
    launch_narrow<kDim>(cuda, params, tiles);
  }
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
  params.is_plain = layout.head_dim % 8 == 0 && args.cache.layer_offset % 16 == 0 ? 1 : 0;
  params.scale = float(1.4426950408889634 / std::sqrt(double(layout.head_dim)));
  if (layout.head_dim <= 32) return launch_attention<32>(cuda, args.cache.tiles, params);
  if (layout.head_dim <= 64) return launch_attention<64>(cuda, args.cache.tiles, params);
  launch_attention<kMostCudaHeadDim>(cuda, args.cache.tiles, params);
}

}  // namespace tinyloop::kernels
