// Attention of wide tiles: up to 64 queries, as prompts have.
//
// Each warp of a block of threads works on 16 queries, the rows of its products, and all share the
// keys and values that they read. Where there are few tiles, the splits of each are spread over the
// blocks of a cluster: block r of 4 takes splits r, r + 4, …, and after each of them merges what
// the four have of its share of the rows.
#include "kernels/cuda/block_stream.cuh"
#include "kernels/cuda/page_matrices.cuh"
#include "kernels/cuda/wide_totals.cuh"

namespace tinyloop::kernels {

namespace {

inline constexpr int kMostParts = 4;  // blocks of a cluster

template <int kDim>
struct WideShape {
  static constexpr int kQueryPitch = kDim + 8;      // halves: rows begin in different banks
  static constexpr bool kQueriesStay = kDim > 128;  // in shared memory; in registers otherwise
  // Blocks of threads to a multiprocessor.
  static constexpr int kBlocks = kDim > 128 ? 1 : kDim > 64 ? 2 : 3;
  static constexpr size_t kQueryBytes = size_t(kWideQueries) * kQueryPitch * sizeof(__half);
  static constexpr size_t kResultBytes = size_t(kWideQueries) * kPartialPitch<kDim> * sizeof(float);
  static_assert(kResultBytes >= kQueryBytes);

  static size_t bytes(int32_t ring_groups) {
    return size_t(ring_groups) * BlockStream<kDim, kAttentionWarps>::kGroupBytes + kResultBytes +
           (kQueriesStay ? kQueryBytes : 0);
  }
};

// ---- Queries ------------------------------------------------------------------------------------

// The queries of a tile → shared[64][kQueryPitch], zeros beyond the tile and the head.
template <int kDim>
__device__ void load_queries(const AttentionParams& args, const QueryTile& tile, int kv_head,
                             __half* shared) {
  constexpr int kPieces = kDim / 8;
  const int head_dim = args.cache.head_dim;
  for (int i = int(threadIdx.x); i < kWideQueries * kPieces; i += kAttentionThreads) {
    const int q = i / kPieces, d = i % kPieces * 8;
    __half* to = shared + q * WideShape<kDim>::kQueryPitch + d;
    if (q >= tile.queries || d >= head_dim) {
      *reinterpret_cast<uint4*>(to) = {};
      continue;
    }
    const int64_t at = query_start(args, args.q, tile, kv_head, q) + d;
    const __half* from = static_cast<const __half*>(args.q.data) + at;
    if (args.has_pairs && d + 8 <= head_dim && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
      copy_16(shared_address(to), from, true);
      continue;
    }
#pragma unroll 1
    for (int c = 0; c < 8; ++c) {
      to[c] =
          to_half_saturated(d + c < head_dim ? load_element(args.q, at + c) : 0.0f, args.counters);
    }
  }
  wait_all_copies();
}

// Operand A of the warp's 16 queries, step by step.
template <int kDim>
class WarpQueries {
 public:
  __device__ explicit WarpQueries(const __half* shared)
      : from_(shared_address(shared +
                             (int(threadIdx.x) / kWarp * kWarpQueries + int(threadIdx.x) % 16) *
                                 WideShape<kDim>::kQueryPitch +
                             int(threadIdx.x) % kWarp / 16 * 8)) {
    if constexpr (!WideShape<kDim>::kQueriesStay) {
#pragma unroll
      for (int k = 0; k < kDim / 16; ++k) load_matrices(steps_[k], from_ + k * 32);
    }
  }
  __device__ void step(int k, uint32_t (&q)[4]) const {
    if constexpr (WideShape<kDim>::kQueriesStay) {
      load_matrices(q, from_ + k * 32);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) q[i] = steps_[k][i];
    }
  }

 private:
  uint32_t from_;
  uint32_t steps_[WideShape<kDim>::kQueriesStay ? 1 : kDim / 16][4];
};

// ---- One block of positions ---------------------------------------------------------------------
// Scores are [8 positions][4], laid out as the sums of a product: lane (g, t) has queries g and
// g + 8 for positions 2t and 2t + 1.

inline constexpr int kBlockEights = kBlockPositions / 8;
using RowScores = float[kBlockEights][4];

// What the lane's two queries attend to.
struct RowRanges {
  QueryRange row[2];

  __device__ bool cover(int first) const {
    return first >= max(row[0].begin, row[1].begin) &&
           first + kBlockPositions <= min(row[0].end, row[1].end);
  }
};

// Those of masked positions become -inf.
__device__ void mask_rows(RowScores& s, const RowRanges& ranges, int first) {
#pragma unroll
  for (int i = 0; i < kBlockEights * 4; ++i) {
    const int position = first + i / 4 * 8 + int(threadIdx.x) % 4 * 2 + i % 2;
    const QueryRange& range = ranges.row[i % 4 / 2];
    if (position < range.begin || position >= range.end) s[i / 4][i % 4] = -INFINITY;
  }
}

// Scores → weights, operand A of each page. most: of the lane's queries, scaled.
__device__ void weigh_rows(const RowScores& s, float scale, uint32_t (&weights)[kBlockPages][4],
                           float (&most)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // A score that is not a number shows in its weight, not in the maximum.
    most[i] = -INFINITY;
#pragma unroll
    for (int e = 0; e < kBlockEights; ++e) {
      most[i] = fmaxf(most[i], fmaxf(s[e][i * 2], s[e][i * 2 + 1]));
    }
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
      most[i] = fmaxf(most[i], __shfl_xor_sync(~0u, most[i], step));
    }
    most[i] = __fmul_rn(most[i], scale);
#pragma unroll
    for (int e = 0; e < kBlockEights; ++e) {
      const __half2 pair = __floats2half2_rn(weight_of(s[e][i * 2], scale, most[i]),
                                             weight_of(s[e][i * 2 + 1], scale, most[i]));
      weights[e / 2][e % 2 * 2 + i] = *reinterpret_cast<const uint32_t*>(&pair);
    }
  }
}

// Scores of a block against the warp's queries.
template <int kDim>
__device__ void score(const WarpQueries<kDim>& queries, uint32_t keys, RowScores& s) {
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    uint32_t q[4];
    queries.step(k, q);
#pragma unroll
    for (int p = 0; p < kBlockPages; ++p) {
      uint32_t b[4];
      load_keys(b, keys + p * BlockStream<kDim, kAttentionWarps>::kPageBytes, k);
      mma_16x8x16(s[p * 2], q, b[0], b[2]);
      mma_16x8x16(s[p * 2 + 1], q, b[1], b[3]);
    }
  }
}

// Weighs the values of a block, and merges it into the split.
template <int kDim>
__device__ void weigh_values(const uint32_t (&weights)[kBlockPages][4], const float (&most)[2],
                             uint32_t values, SplitSums<kDim>& split) {
  float sums[4] = {};
#pragma unroll
  for (int p = 0; p < kBlockPages; ++p) mma_16x8x16(sums, weights[p], kTwoOnes, kTwoOnes);
  const SoftmaxStep step[2] = {merge(split.state[0], {most[0], sums[0]}),
                               merge(split.state[1], {most[1], sums[2]})};
  // Some dimensions at a time, so that their products have not to wait for one another.
  constexpr int kSteps = kDim / 16, kTogether = kSteps % 4 == 0 ? 4 : kSteps;
#pragma unroll
  for (int from = 0; from < kSteps; from += kTogether) {
    float c[kTogether * 2][4] = {};
#pragma unroll
    for (int p = 0; p < kBlockPages; ++p) {
#pragma unroll
      for (int d = 0; d < kTogether; ++d) {
        uint32_t b[4];
        load_values(b, values + p * BlockStream<kDim, kAttentionWarps>::kPageBytes, from + d);
        mma_16x8x16(c[d * 2], weights[p], b[0], b[1]);
        mma_16x8x16(c[d * 2 + 1], weights[p], b[2], b[3]);
      }
    }
#pragma unroll
    for (int d = 0; d < kTogether * 2; ++d) split.take(from * 2 + d, c[d], step);
  }
}

// ---- The kernel ---------------------------------------------------------------------------------

// kParts: blocks of threads that share a tile.
template <int kDim, int kParts>
__global__ void __launch_bounds__(kAttentionThreads, WideShape<kDim>::kBlocks)
    wide_attention(const __grid_constant__ AttentionParams args) {
  using Shape = WideShape<kDim>;
  using Stream = BlockStream<kDim, kAttentionWarps>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ uint64_t barriers[kMostRingGroups];
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  auto* results = reinterpret_cast<float*>(shared + args.ring_groups * Stream::kGroupBytes);
  // Queries that go to registers leave their place to the results.
  auto* query_rows = reinterpret_cast<__half*>(reinterpret_cast<uint8_t*>(results) +
                                               (Shape::kQueriesStay ? Shape::kResultBytes : 0));

  // The longest contexts tend to come last.
  const int part = int(blockIdx.x) % kParts, item = args.items - 1 - int(blockIdx.x) / kParts;
  const int kv_head = item % args.cache.kv_heads;
  const QueryTile tile = load_tile(args, item / args.cache.kv_heads);
  const TileRange range = range_of(args, tile);
  const int first = (range.first_split() + part) * kSplitBlocks;
  const auto sequence = BlockSequence::until(
      range.end_block(), first, max(0, range.first_block() - first), 2, kParts * kSplitBlocks);
  Stream stream(args, range, kv_head, sequence, shared, barriers, warp == 0 ? lane : -1);
  stream.start(tile.position);  // ahead of the wait: of earlier passes' positions
  wait_for_previous();
  release_next();
  stream.start_rest(tile.position);
  load_queries<kDim>(args, tile, kv_head, query_rows);
  __syncthreads();
  const WarpQueries<kDim> queries(query_rows);
  if constexpr (kParts > 1) __syncthreads();  // a part without blocks goes on to its results
  RowRanges ranges;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    ranges.row[i] =
        range_of_query(args, tile, range.window, warp * kWarpQueries + lane / 4 + i * 8);
  }
  const int warp_end = __reduce_max_sync(~0u, max(ranges.row[0].end, ranges.row[1].end));

  std::conditional_t<kParts == 1, OwnTotal<kDim>, SharedTotal<kDim, kParts>> total(results, part);
  const int count = range.end_split() - range.first_split();
  int n = 0;
#pragma unroll 1
  for (int base = 0; base < count; base += kParts) {
    SplitSums<kDim> split;
    const int end = min(range.end_block(), (range.first_split() + base + part + 1) * kSplitBlocks);
#pragma unroll 1
    for (; n < sequence.count && sequence.block(n) < end; ++n) {
      const int position = sequence.block(n) * kBlockPositions;
      const bool attended = position < warp_end;
      uint32_t weights[kBlockPages][4];
      float most[2];
      const uint32_t keys = stream.wait();
      if (args.cache.head_dim != kDim) {
        clear_keys<kDim>(keys, kBlockPositions, args.cache.head_dim, int(threadIdx.x),
                         kAttentionThreads);
        __syncthreads();
      }
      if (attended) {
        RowScores s = {};
        score<kDim>(queries, keys, s);
        if (!__all_sync(~0u, ranges.cover(position))) mask_rows(s, ranges, position);
        weigh_rows(s, args.scale, weights, most);
      }
      stream.release();
      const uint32_t values = stream.wait();
      if (position < range.low || position + kBlockPositions > range.high) {
        clear_values<kDim>(values, position, kBlockPositions, range.low, range.high,
                           int(threadIdx.x), kAttentionThreads);
        __syncthreads();
      }
      if (attended) weigh_values<kDim>(weights, most, values, split);
      stream.release();
      stream.look_ahead(n);
    }
    if constexpr (kParts == 1) {
      total.take(split);
    } else {
      total.put(split);
      sync_cluster();
      total.take(min(kParts, count - base));
      sync_cluster();  // until here the blocks read each other's
    }
  }
  HalfPairs halves;
  total.store(args, tile, kv_head, halves);
  halves.report(args.counters);
}

// ---- The launcher -------------------------------------------------------------------------------

template <int kDim>
void launch(CudaContext& cuda, AttentionParams params, const QueryTiles& tiles) {
  using Shape = WideShape<kDim>;
  params.tiles = tiles.wide;
  params.items = tiles.wide_count * params.cache.kv_heads;
  params.ring_groups = kMostRingGroups;
  while (params.ring_groups > 1 && Shape::bytes(params.ring_groups) > cuda.shared_limit()) {
    --params.ring_groups;
  }
  const auto bytes = uint32_t(Shape::bytes(params.ring_groups));
  // As many parts as there are splits and as find room on the device at once.
  const int32_t resident = Shape::kBlocks * cuda.sm_count();
  params.parts = 1;
  while (cuda.has_warp_groups() && params.parts < kMostParts &&
         params.parts * kAttentionSplit < tiles.most_context &&
         params.items * params.parts * 2 <= resident) {
    params.parts *= 2;
  }
  const auto start = [&](auto parts) {
    constexpr int kParts = decltype(parts)::value;
    cuda.launch(wide_attention<kDim, kParts>,
                {unsigned(params.items * kParts), kAttentionThreads, bytes, uint32_t(kParts)},
                params);
  };
  if (params.parts == 1) return start(std::integral_constant<int, 1>());
  if (params.parts == 2) return start(std::integral_constant<int, 2>());
  start(std::integral_constant<int, kMostParts>());
}

}  // namespace

void launch_wide_attention(CudaContext& cuda, AttentionParams params, const QueryTiles& tiles) {
  with_matrix_dims(params.cache.dims,
                   [&](auto dims) { launch<decltype(dims)::value>(cuda, params, tiles); });
}

}  // namespace tinyloop::kernels
