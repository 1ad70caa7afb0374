// Attention of narrow tiles: up to 16 queries, as decoding rows have.
//
// The warps of a block of threads share the positions of a tile: each takes one block of a split,
// and goes through its blocks by itself; what it gets of each waits in shared memory until the
// splits are merged. Where there are few tiles, the splits of each are spread over the blocks of a
// cluster.
#pragma once

#include <cooperative_groups.h>

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/attention_block.cuh"

namespace tinyloop::kernels {

// ---- Operands -----------------------------------------------------------------------------------
// Keys and values go from device memory straight to the registers of the warp that works on their
// block. No lane needs what another has loaded: the products sum over the dimensions of a step in
// whatever places these stand, if they stand in the same ones on both sides, and a column of the
// weighted values may be any dimension.
//
// Lane (g, t) = (lane / 4, lane % 4), as in mma.cuh. Its places k = 2t, 2t + 1, 2t + 8, 2t + 9 of a
// step are the dimensions 4t …, one load. Before 9.0 the products take eight places at a time,
// which must stay together: there it is two loads, as mma numbers them.

// The lane's four dimensions of the 16 at `step`; load(at, d) loads what lies at dimension d.
template <class Load>
__device__ uint2 step_operand(const __half* step, int t, Load load) {
#if __CUDA_ARCH__ >= 900
  return load(reinterpret_cast<const uint2*>(step) + t, t * 4);
#else
  const auto* words = reinterpret_cast<const uint32_t*>(step);
  return {load(words + t, t * 2), load(words + t + 4, t * 2 + 8)};
#endif
}

// Where query `q` of the tile begins; where there is none, some other.
__device__ inline const __half* query_row(const AttentionParams& args, const QueryTile& tile,
                                          int kv_head, int q) {
  return static_cast<const __half*>(args.q.data) +
         query_start(args, args.q, tile, kv_head, min(q, tile.queries - 1));
}

// Operand A of step `k` of the lane's two queries; without `both`, zeros for the second.
template <int kDim>
__device__ void load_query_step(const __half* const (&rows)[2], bool both, int head_dim, int k,
                                uint32_t (&q)[4]) {
  const int t = int(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint2 dims = step_operand(rows[i] + k * 16, t, [&](const auto* at, int d) {
      return (i == 0 || both) && k * 16 + d < head_dim ? __ldcg(at) : std::decay_t<decltype(*at)>{};
    });
    q[i] = dims.x;
    q[i + 2] = dims.y;
  }
}

// Keys and values of the block of 64 positions at `first`, for one K/V head. Everything here is
// called by whole warps. Of positions outside [low, high), whose scores are masked, the keys may be
// anything and the values are zeros; pages without other positions are not touched.
template <int kDim>
class PositionBlock {
 public:
  // Of 64 dimensions: `half` says which.
  using Keys = uint2[kBlockEights][4];
  using PageValues = uint4[4];

  // pages: those of the block, in shared memory.
  __device__ PositionBlock(const AttentionParams& args, int kv_head, const std::byte* const* pages,
                           int first, int low, int high)
      : args_(args), kv_head_(kv_head), pages_(pages), first_(first), low_(low), high_(high) {}

  // Where there is nothing to load: otherwise the keys of the block before would keep their
  // registers.
  __device__ static void clear(Keys& keys) {
#pragma unroll
    for (auto& eight : keys) {
#pragma unroll
      for (uint2& step : eight) step = {0, 0};
    }
  }
  // Those of positions from `begin` on, and some ahead of it.
  __device__ void load_keys(int half, int begin, Keys& keys) const {
    const int lane = int(threadIdx.x) % kWarp, g = lane / 4, t = lane % 4;
    const int head_dim = args_.cache.head_dim;
    const int64_t from = offset(false, g * head_dim + half * 64);
#pragma unroll
    for (int i = 0; i < kBlockPages; ++i) {
      const std::byte* page = pages_[i];
      if (page == nullptr) continue;
      const auto* row = reinterpret_cast<const __half*>(page + from);
#pragma unroll
      for (int j = 0; j < 2; ++j, row += 8 * head_dim) {
        if (first_ + (i * 2 + j + 1) * 8 <= begin) continue;
#pragma unroll
        for (int s = 0; s < 4; ++s) {
          keys[i * 2 + j][s] = step_operand(row + s * 16, t, [&](const auto* at, int d) {
            return half * 64 + s * 16 + d < head_dim ? __ldcg(at) : std::decay_t<decltype(*at)>{};
          });
        }
      }
    }
  }

  __device__ void load_values(int half, int page, PageValues& values) const {
    // As a rule every position and every dimension is wanted.
    if (args_.cache.head_dim == kDim && first_ >= low_ && first_ + kBlockPositions <= high_) {
      load_values<true>(half, page, values);
    } else {
      load_values<false>(half, page, values);
    }
  }

 private:
  static_assert(kPagePositions == 16);  // a step of the products

  // Bytes from where a page begins to what the lane loads first.
  __device__ int64_t offset(bool of_values, int at) const {
    return args_.cache.layer_offset + int64_t{((kv_head_ + (of_values ? args_.cache.kv_heads : 0)) *
                                               kPagePositions * args_.cache.head_dim) +
                                              at} *
                                          int64_t{sizeof(__half)};
  }

  // 8g … of the dimensions at four of a page's positions.
  template <bool kWhole>
  __device__ void load_values(int half, int page, PageValues& values) const {
    const int lane = int(threadIdx.x) % kWarp, g = lane / 4, t = lane % 4;
    const int head_dim = kWhole ? kDim : args_.cache.head_dim;
    const int d = half * 64 + g * 8;
    const auto* of_page =
        reinterpret_cast<const __half*>(pages_[page] + offset(true, t * 2 * head_dim + d));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int place = i % 2 + i / 2 * 8;
      const int position = first_ + page * kPagePositions + t * 2 + place;
      const bool valid = kWhole || (position >= low_ && position < high_ && d < head_dim);
      values[i] =
          valid ? __ldcg(reinterpret_cast<const uint4*>(of_page + place * head_dim)) : uint4{};
    }
  }

  const AttentionParams& args_;
  const int kv_head_;
  const std::byte* const* const pages_;
  const int first_, low_, high_;
};

// Where the page with `position` begins; null where it is not in use.
__device__ inline const std::byte* page_at(const AttentionParams& args, const TileRange& range,
                                           int position) {
  if (position >= range.high || position + kPagePositions <= range.low) return nullptr;
  const auto* pages = reinterpret_cast<const unsigned long long*>(args.cache.pages);
  return reinterpret_cast<const std::byte*>(
      __ldcg(pages + range.table + position / kPagePositions));
}

// Has the second-level cache fetch keys or values of a head in one page.
__device__ inline void announce(const AttentionParams& args, const std::byte* page, int kv_head,
                                bool of_values) {
#if __CUDA_ARCH__ >= 900
  const int bytes = kPagePositions * args.cache.head_dim * int(sizeof(__half));
  const std::byte* from = page + args.cache.layer_offset +
                          int64_t{kv_head + (of_values ? args.cache.kv_heads : 0)} * bytes;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)),
               "r"(bytes)
               : "memory");
#endif
}

// Two neighbouring positions' values of dimension `j` of the eight that a lane has.
__device__ inline uint32_t value_pair(const uint4& low, const uint4& high, int j) {
  const uint32_t words[2][4] = {{low.x, low.y, low.z, low.w}, {high.x, high.y, high.z, high.w}};
  return __byte_perm(words[0][j / 2], words[1][j / 2], j % 2 == 0 ? 0x5410 : 0x7632);
}

// ---- Partial results ----------------------------------------------------------------------------
// [query][kDim + 4] in shared memory: weighted values, then the state.

template <int kDim>
inline constexpr int kPartialPitch = kDim + 4;  // whole, shifted vectors

// Four dimensions of a row: `index` counts them row after row. The threads of a row are of one
// warp.
template <int kDim>
struct Piece {
  static constexpr int kOfRow = kDim / 4;
  float4 value = {};
  SoftmaxState state;

  __device__ static int row(int index) { return index / kOfRow; }
  __device__ static int dim(int index) { return index % kOfRow * 4; }

  __device__ static Piece of(const float* partial, int index) {
    const float* from = partial + row(index) * kPartialPitch<kDim>;
    const auto state = *reinterpret_cast<const float2*>(from + kDim);
    return {*reinterpret_cast<const float4*>(from + dim(index)), {state.x, state.y}};
  }
  // Once all threads of the row have read its state.
  __device__ void put(float* partial, int index) const {
    float* to = partial + row(index) * kPartialPitch<kDim>;
    *reinterpret_cast<float4*>(to + dim(index)) = value;
    if (dim(index) == 0) *reinterpret_cast<float2*>(to + kDim) = {state.most, state.sum};
  }
  // A later stretch.
  __device__ void take(const Piece& next) {
    const SoftmaxStep step = merge(state, next.state);
    step.apply(value.x, next.value.x);
    step.apply(value.y, next.value.y);
    step.apply(value.z, next.value.z);
    step.apply(value.w, next.value.w);
  }
};

// In order, those of `count` partial results that lie in [begin, end).
template <int kDim, int kCount>
__device__ Piece<kDim> merge_pieces(Piece<kDim> total, const float* partials, int pitch, int begin,
                                    int end, int index) {
  Piece<kDim> next[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i >= begin && i < end) next[i] = Piece<kDim>::of(partials + i * pitch, index);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) total.take(next[i]);  // what is not there changes nothing
  return total;
}

// The blocks of `split` that have been worked on: of what [low, high) reaches into.
template <int kDim>
__device__ Piece<kDim> merge_blocks(const TileRange& range, int split, const float* partials,
                                    int partial_floats, int index) {
  const int first = split * kSplitBlocks;
  return merge_pieces<kDim, kSplitBlocks>(
      {}, partials, partial_floats, range.low / kBlockPositions - first,
      (range.high + kBlockPositions - 1) / kBlockPositions - first, index);
}

// What a warp has of its two rows: weighted values of 64 dimensions, 16 of them from 16t on.
template <int kDim, bool kBoth>
__device__ void put_values(const float (&o)[8][4], float* to, int rows) {
  const int lane = int(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < (kBoth ? 2 : 1); ++i) {
    if (lane / 4 + i * 8 >= rows) continue;
    float* row = to + (lane / 4 + i * 8) * kPartialPitch<kDim> + lane % 4 * 16;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const int j = v % 2 * 4, c = i * 2 + v / 2;
      *reinterpret_cast<float4*>(row + v * 4) = {o[j][c], o[j + 1][c], o[j + 2][c], o[j + 3][c]};
    }
  }
}
template <int kDim, bool kBoth>
__device__ void put_states(const SoftmaxState (&state)[2], float* to, int rows) {
  const int lane = int(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < (kBoth ? 2 : 1); ++i) {
    if (lane / 4 + i * 8 >= rows || lane % 4 > 0) continue;
    float* row = to + (lane / 4 + i * 8) * kPartialPitch<kDim>;
    *reinterpret_cast<float2*>(row + kDim) = {state[i].most, state[i].sum};
  }
}

// Four dimensions of a finished row, which begins at out_start.
template <int kDim>
__device__ void store_piece(const AttentionParams& args, int64_t out_start,
                            const Piece<kDim>& total, int index, HalfPairs& halves) {
  const int d = Piece<kDim>::dim(index);
  if (d >= args.cache.head_dim) return;
  const float sum = total.state.sum;
  store_pair(args.out, out_start + d, {total.value.x / sum, total.value.y / sum}, true, halves);
  store_pair(args.out, out_start + d + 2, {total.value.z / sum, total.value.w / sum}, true, halves);
}

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
#endif
  halves.report(args.counters);
}

}  // namespace tinyloop::kernels
