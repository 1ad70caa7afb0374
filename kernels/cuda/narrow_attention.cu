// Attention of narrow tiles: up to 8 queries, as decoding rows have.
//
// Positions are the rows of the products and queries their columns, so that few queries waste
// little. Each warp of a block of threads takes one block of positions of a split, and goes through
// its blocks by itself; what it gets of each waits in shared memory until the splits are merged.
// Where there are few tiles, the splits of each are spread over the blocks of a cluster.
#include <algorithm>
#include <bit>

#include "kernels/cuda/block_stream.cuh"
#include "kernels/cuda/page_matrices.cuh"
#include "kernels/cuda/partial_results.cuh"

namespace tinyloop::kernels {

namespace {

// ---- Queries ------------------------------------------------------------------------------------

// Queries whose pairs no load takes → shared[queries][kDim].
template <int kDim>
__device__ void stage_queries(const AttentionParams& args, const QueryTile& tile, int kv_head,
                              __half* shared) {
#pragma unroll 1
  for (int i = int(threadIdx.x); i < tile.queries * kDim; i += kAttentionThreads) {
    const int d = i % kDim;
    if (d >= args.cache.head_dim) continue;
    const int64_t at = query_start(args, args.q, tile, kv_head, i / kDim) + d;
    shared[i] = to_half_saturated(load_element(args.q, at), args.counters);
  }
  __syncthreads();
}

// In global or shared memory; past the first-level cache.
__device__ inline uint32_t load_pair(const __half* at) {
  uint32_t pair;
  asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(pair) : "l"(at) : "memory");
  return pair;
}

// Operand B of all steps: lane (g, t) has two dimensions from 2t on of query g, which begins at
// `from`, and two from 2t + 8 on. Zeros beyond the tile and the head.
template <int kDim>
__device__ void load_columns(const __half* from, int head_dim, bool valid,
                             uint32_t (&q)[kDim / 16][2]) {
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
    const int d = i * 8 + int(threadIdx.x) % 4 * 2;
    uint32_t& pair = q[i / 2][i % 2];
    pair = valid && d < head_dim ? load_pair(from + d) : 0;
    if (d + 1 == head_dim) pair &= 0xffff;
  }
}

// ---- One block of positions ---------------------------------------------------------------------
// Scores are [page][4], laid out as the sums of a product: lane (g, t) has positions g and g + 8 of
// each page for columns 2t and 2t + 1.

using Scores = float[kBlockPages][4];

// Those of masked positions become -inf.
__device__ void mask_columns(Scores& s, const AttentionParams& args, const QueryTile& tile,
                             int window, int first) {
  const int lane = int(threadIdx.x) % kWarp;
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const QueryRange range = range_of_query(args, tile, window, lane % 4 * 2 + c);
#pragma unroll
    for (int i = 0; i < 2 * kBlockPages; ++i) {
      const int position = first + i * 8 + lane / 4;
      if (position < range.begin || position >= range.end) s[i / 2][i % 2 * 2 + c] = -INFINITY;
    }
  }
}

// Scores → weights, operand B of each page. most: of the lane's columns, scaled.
__device__ void weigh_columns(const Scores& s, float scale, uint32_t (&weights)[kBlockPages][2],
                              float (&most)[2]) {
  // A score that is not a number shows in its weight, not in the maximum.
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    most[c] = -INFINITY;
#pragma unroll
    for (int p = 0; p < kBlockPages; ++p) most[c] = fmaxf(most[c], fmaxf(s[p][c], s[p][c + 2]));
  }
#pragma unroll
  for (int step = 4; step < kWarp; step *= 2) {
#pragma unroll
    for (int c = 0; c < 2; ++c) most[c] = fmaxf(most[c], __shfl_xor_sync(~0u, most[c], step));
  }
  most[0] = __fmul_rn(most[0], scale);
  most[1] = __fmul_rn(most[1], scale);
#pragma unroll
  for (int p = 0; p < kBlockPages; ++p) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const __half2 pair = __floats2half2_rn(weight_of(s[p][i * 2], scale, most[0]),
                                             weight_of(s[p][i * 2 + 1], scale, most[1]));
      weights[p][i] = transpose_matrix(*reinterpret_cast<const uint32_t*>(&pair));
    }
  }
}

// The block of the stream that begins at position `first` → a partial result.
template <int kDim>
__device__ void attend(const AttentionParams& args, const QueryTile& tile, const TileRange& range,
                       const uint32_t (&q)[kDim / 16][2], BlockStream<kDim, 1>& stream, int first,
                       float* partial) {
  constexpr int kSteps = kDim / 16, kPageBytes = BlockStream<kDim, 1>::kPageBytes;
  const int lane = int(threadIdx.x) % kWarp;
  Scores s = {};
  const uint32_t keys = stream.wait();
  if (args.cache.head_dim != kDim) {
    clear_keys<kDim>(keys, kBlockPositions, args.cache.head_dim, lane, kWarp);
    __syncwarp();
  }
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
#pragma unroll
    for (int p = 0; p < kBlockPages; ++p) {
      uint32_t a[4];
      load_keys(a, keys + p * kPageBytes, k);
      mma_16x8x16(s[p], a, q[k][0], q[k][1]);
    }
  }
  stream.release();
  // As a rule no position is masked for any row: neither for the first, which is the earliest, nor
  // for the last.
  const int least_end = tile.position + args.group.row(tile.first_query) + 1;
  if (first + kBlockPositions > least_end ||
      (range.window > 0 && first < range.high - range.window)) {
    mask_columns(s, args, tile, range.window, first);
  }
  uint32_t weights[kBlockPages][2];
  float most[2];
  weigh_columns(s, args.scale, weights, most);

  float o[kSteps][4] = {}, sums[4] = {};
  const uint32_t ones[4] = {kTwoOnes, kTwoOnes, kTwoOnes, kTwoOnes};
  const uint32_t values = stream.wait();
  if (first < range.low || first + kBlockPositions > range.high) {
    clear_values<kDim>(values, first, kBlockPositions, range.low, range.high, lane, kWarp);
    __syncwarp();
  }
#pragma unroll
  for (int p = 0; p < kBlockPages; ++p) {
    mma_16x8x16(sums, ones, weights[p][0], weights[p][1]);
#pragma unroll
    for (int d = 0; d < kSteps; ++d) {
      uint32_t r[4];
      load_values(r, values + p * kPageBytes, d);
      const uint32_t a[4] = {r[0], r[2], r[1], r[3]};
      mma_16x8x16(o[d], a, weights[p][0], weights[p][1]);
    }
  }
  stream.release();
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const int column = lane % 4 * 2 + c;
    if (column >= tile.queries) continue;
    float* to = partial + column * kPartialPitch<kDim> + lane / 4;
#pragma unroll
    for (int d = 0; d < kSteps; ++d) {
      to[d * 16] = o[d][c];
      to[d * 16 + 8] = o[d][c + 2];
    }
    if (lane / 4 == 0) *reinterpret_cast<float2*>(to + kDim) = {most[c], sums[c]};
  }
}

// ---- The kernel ---------------------------------------------------------------------------------

inline constexpr size_t kStaticBytes = 256;  // of the kernel's own shared memory

// Shared memory: the rings of the warps; a partial result of each warp for each split of a round;
// those of the splits, where they are merged over a cluster.
template <int kDim>
struct NarrowMemory {
  static size_t ring_bytes(const AttentionParams& args) {
    return size_t{kAttentionWarps} * size_t(args.ring_groups) * BlockStream<kDim, 1>::kGroupBytes;
  }
  static size_t bytes(const AttentionParams& args) {
    const int32_t partials = args.round_splits * (kAttentionWarps + (args.parts > 1 ? 1 : 0));
    return ring_bytes(args) +
           size_t(partials * args.narrow_queries * kPartialPitch<kDim>) * sizeof(float);
  }
};

// The splits of a round of all parts, in order: part after part, as they lie in the cluster's
// shared memory, which takes its time to answer: several are asked for at once.
template <int kDim>
__device__ void merge_parts(const AttentionParams& args, float* splits, int partial_floats,
                            int count, int index, Piece<kDim>& total) {
#if __CUDA_ARCH__ >= 900
  constexpr int kAhead = 4;
  const auto cluster = cooperative_groups::this_cluster();
#pragma unroll 1
  for (int from = 0; from < count; from += kAhead) {
    const auto at = [&](int i) {
      return cluster.map_shared_rank(splits + (from + i) / args.parts * partial_floats,
                                     unsigned((from + i) % args.parts));
    };
    merge_pieces<kDim, kAhead>(total, at, 0, count - from, index);
  }
#endif
}

template <int kDim>
__global__ void __launch_bounds__(kAttentionThreads, kDim > 128 ? 1 : 3)
    narrow_attention(const __grid_constant__ AttentionParams args) {
  constexpr int kPieces =  // of a thread
      (kNarrowQueries * Piece<kDim>::kOfRow + kAttentionThreads - 1) / kAttentionThreads;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ uint64_t barriers[kAttentionWarps][kMostRingGroups];
  __shared__ int64_t out_starts[kNarrowQueries];
  const int thread = int(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const int ring_bytes = args.ring_groups * BlockStream<kDim, 1>::kGroupBytes;
  const int partial_floats = args.narrow_queries * kPartialPitch<kDim>;
  auto* partials = reinterpret_cast<float*>(shared + kAttentionWarps * ring_bytes);
  float* splits = partials + args.round_splits * kAttentionWarps * partial_floats;

  // ---- First blocks: ahead of the wait, as far as their positions are of earlier passes ----
  const int part = int(blockIdx.x) % args.parts, item = int(blockIdx.x) / args.parts;
  const int kv_head = item % args.cache.kv_heads;
  const QueryTile tile = load_tile(args, item / args.cache.kv_heads);
  const TileRange range = range_of(args, tile);
  const int stride = args.parts * kSplitBlocks;
  int first = (range.first_split() + part) * kSplitBlocks + warp;
  if (first < range.first_block()) first += stride;
  const auto sequence = BlockSequence::until(range.end_block(), first, 0, 0, stride);
  BlockStream<kDim, 1> stream(args, range, kv_head, sequence, shared + warp * ring_bytes,
                              barriers[warp], lane);
  stream.start(tile.position);
  const int64_t start = query_start(args, args.q, tile, kv_head, min(lane / 4, tile.queries - 1));
  if (thread < tile.queries)
    out_starts[thread] = query_start(args, args.out, tile, kv_head, thread);
  wait_for_previous();
  release_next();
  stream.start_rest(tile.position);
  const int column = min(lane / 4, tile.queries - 1);
  const __half* query = static_cast<const __half*>(args.q.data) + start;
  if (!args.has_pairs) {
    auto* staged = reinterpret_cast<__half*>(partials);
    stage_queries<kDim>(args, tile, kv_head, staged);
    query = staged + column * kDim;
  }
  uint32_t q[kDim / 16][2];
  load_columns<kDim>(query, args.cache.head_dim, lane / 4 < tile.queries, q);
  if (!args.has_pairs) __syncthreads();  // the partial results come there

  const int pieces = tile.queries * Piece<kDim>::kOfRow;
  Piece<kDim> total[kPieces];
  int n = 0;  // blocks of the stream that have been worked on
  const int count = range.end_split() - range.first_split();  // splits of the tile
  const int round = args.parts * args.round_splits;
#pragma unroll 1
  for (int base = 0; base < count; base += round) {
    // ---- One block a warp of each split ----
#pragma unroll 1
    for (int k = 0; k < args.round_splits; ++k) {
      const int split = range.first_split() + base + k * args.parts + part;
      const int block = split * kSplitBlocks + warp;
      if (block < range.first_block() || block >= range.end_block()) continue;
      attend<kDim>(args, tile, range, q, stream, block * kBlockPositions,
                   partials + (k * kAttentionWarps + warp) * partial_floats);
      stream.look_ahead(n++);
    }
    __syncthreads();

    // ---- The round's splits, in order ----
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int index = thread + i * kAttentionThreads;
      if (index >= pieces) continue;
#pragma unroll 1
      for (int k = 0; k < args.round_splits; ++k) {
        const int split = range.first_split() + base + k * args.parts + part;
        if (split >= range.end_split()) break;
        const float* blocks = partials + k * kAttentionWarps * partial_floats;
        Piece<kDim> merged;
        merge_pieces<kDim, kSplitBlocks>(
            merged, [&](int b) { return blocks + b * partial_floats; },
            range.first_block() - split * kSplitBlocks, range.end_block() - split * kSplitBlocks,
            index);
        if (args.parts == 1) {
          total[i].take(merged);
        } else {
          merged.put(splits + k * partial_floats, index);
        }
      }
    }
    if (args.parts > 1) {
      sync_cluster();
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const int index = thread + i * kAttentionThreads;
        if (part > 0 || index >= pieces) continue;
        merge_parts<kDim>(args, splits, partial_floats, min(round, count - base), index, total[i]);
      }
      sync_cluster();  // until here the first block reads the others'
    } else if (base + round < count) {
      __syncthreads();
    }
  }
  if (part > 0) return;
  HalfPairs halves;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int index = thread + i * kAttentionThreads;
    if (index >= pieces) continue;
    store_piece(args, out_starts[Piece<kDim>::row(index)], total[i], index, halves);
  }
  halves.report(args.counters);
}

// ---- The launcher -------------------------------------------------------------------------------

// Sets rings and rounds so that `blocks` blocks of threads share a multiprocessor. Whether they
// find room.
template <int kDim>
bool cut_memory(const CudaContext& cuda, int32_t splits, int32_t blocks, AttentionParams& params) {
  constexpr int32_t kMostRound = 4;
  constexpr size_t kOfBlock = 1 << 10;  // that the device takes for each
  const size_t whole = cuda.shared_limit() + kStaticShared + kOfBlock;
  const size_t most =
      std::min(cuda.shared_limit(), whole / size_t(blocks) - kOfBlock - kStaticBytes);
  const int32_t of_part = (splits + params.parts - 1) / params.parts;
  for (params.ring_groups = kMostRingGroups; params.ring_groups > 0; --params.ring_groups) {
    for (params.round_splits = std::min(kMostRound, of_part); params.round_splits > 0;
         --params.round_splits) {
      if (NarrowMemory<kDim>::bytes(params) <= most) return true;
    }
  }
  params.ring_groups = params.round_splits = 1;
  return false;
}

// Cuts the tiles into parts and the memory of a multiprocessor among blocks of threads. `splits`:
// of the longest context.
template <int kDim>
void cut(const CudaContext& cuda, int32_t splits, AttentionParams& params) {
  constexpr int32_t kMostParts = 8;  // blocks of a cluster
  constexpr int32_t kFewSplits = 4;  // a short context
  // Three blocks to a multiprocessor, or two where these have more on their way; or one.
  params.parts = 1;
  int32_t blocks = cut_memory<kDim>(cuda, splits, 3, params) ? 3 : 1;
  const int32_t groups = blocks == 3 ? params.ring_groups : 0;
  if (cut_memory<kDim>(cuda, splits, 2, params) && 2 * params.ring_groups >= 3 * groups) blocks = 2;
  // The parts of all tiles run side by side.
  const int32_t resident = (groups > 0 ? 3 : blocks) * cuda.sm_count();
  while (cuda.has_warp_groups() && params.parts < std::min(splits, kMostParts) &&
         params.items * params.parts * 2 <= resident) {
    params.parts *= 2;
  }
  // A cluster finds its place the sooner the smaller its blocks are. Of short contexts all tiles
  // had better run at once.
  if (params.parts > 1 && groups > 0) blocks = 3;
  for (int32_t more = 2; params.parts == 1 && splits <= kFewSplits && more <= 4; ++more) {
    if (params.items <= more * cuda.sm_count() && cut_memory<kDim>(cuda, splits, more, params)) {
      blocks = more;
      break;
    }
  }
  cut_memory<kDim>(cuda, splits, blocks, params);
}

template <int kDim>
void launch(CudaContext& cuda, AttentionParams params, const QueryTiles& tiles) {
  params.tiles = tiles.narrow;
  params.items = tiles.narrow_count * params.cache.kv_heads;
  // Rounded up to a power of two, so that growing contexts change the launch seldom.
  const auto most = int32_t(std::bit_ceil(uint32_t(tiles.most_context)));
  cut<kDim>(cuda, (most + kAttentionSplit - 1) / kAttentionSplit, params);
  cuda.launch(narrow_attention<kDim>,
              {unsigned(params.items * params.parts), kAttentionThreads,
               uint32_t(NarrowMemory<kDim>::bytes(params)), uint32_t(params.parts)},
              params);
}

}  // namespace

void launch_narrow_attention(CudaContext& cuda, AttentionParams params, const QueryTiles& tiles) {
  with_matrix_dims(params.cache.dims,
                   [&](auto dims) { launch<decltype(dims)::value>(cuda, params, tiles); });
}

}  // namespace tinyloop::kernels
