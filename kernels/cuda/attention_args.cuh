// Attention on the tensor cores: what its two kernels have in common.
//
// Every row's result is built up in one order: blocks of 64 positions at absolute multiples, each
// with its own maximum, sum and weighted values; the blocks of a split of kAttentionSplit positions
// merged in order; the splits merged in order. Scores, sums of weights and weighted values are
// products of 16 x 8 x 16, whose steps are 16 dimensions or the 16 positions of a page, in order;
// which side of a product is operand A changes no bit. So which kernel works on a row, and how many
// rows it takes along, changes nothing: masked positions add exact zeros, wholly masked blocks are
// skipped. The arithmetic is spelled out operation by operation, so that the compiler has no choice
// either.
#pragma once

#include <cuda_fp16.h>

#include "kernels/attention.h"
#include "kernels/attention_plan.h"
#include "kernels/cuda/device_tools.cuh"
#include "kernels/cuda/kv_device.cuh"

namespace tinyloop::kernels {

inline constexpr int kBlockPositions = 64;
inline constexpr int kBlockPages = kBlockPositions / kPagePositions;
inline constexpr int kSplitBlocks = kAttentionSplit / kBlockPositions;
inline constexpr int kAttentionWarps = 4;
inline constexpr int kAttentionThreads = kAttentionWarps * kWarp;
static_assert(kPagePositions == 16);  // a step of the products

// The heads of a K/V head. Queries of a tile are divided by their number.
struct Group {
  int32_t heads;
  uint32_t inverse;  // 2^32 / heads, rounded up: exact for all products below 2^32; 0 for one head

  __device__ int row(int query) const {
    return inverse == 0 ? query : int(__umulhi(unsigned(query), inverse));
  }
  __device__ int head(int query) const { return query - row(query) * heads; }
};

struct AttentionParams {
  DeviceRows q, out;
  DevicePages cache;
  DeviceCounters* counters;
  const QueryTile* tiles;
  Group group;             // heads of one K/V head
  int32_t items;           // tiles times K/V heads
  int32_t narrow_queries;  // no narrow tile has more
  int32_t parts;           // blocks of threads that share a tile: a cluster
  int32_t round_splits;    // of which a part of a narrow tile keeps partial results at once
  int32_t ring_groups;     // keys, or values, of a block, on their way to a warp at once
  int32_t has_pairs;       // queries that loads of two numbers can take
  float scale;             // log2(e) / sqrt(head_dim)
};

// Positions [low, high) that some query of the tile attends to. Rows of a tile are consecutive: the
// first reaches farthest back, the last farthest ahead.
struct TileRange {
  int table, window, low, high;

  __device__ int first_block() const { return low / kBlockPositions; }
  __device__ int end_block() const { return (high + kBlockPositions - 1) / kBlockPositions; }
  __device__ int first_split() const { return low / kAttentionSplit; }
  __device__ int end_split() const { return (high + kAttentionSplit - 1) / kAttentionSplit; }
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

// Positions [begin, end) that query `q` of the tile attends to; none where there is no such query.
struct QueryRange {
  int begin, end;
};
__device__ inline QueryRange range_of_query(const AttentionParams& args, const QueryTile& tile,
                                            int window, int q) {
  const int position = tile.position + args.group.row(tile.first_query + q);
  if (q >= tile.queries) return {0, 0};
  return {window > 0 ? max(0, position - window + 1) : 0, position + 1};
}

// ---- Launchers: the tiles of one kind, of heads of matrix_dims() dimensions ---------------------

void launch_narrow_attention(CudaContext& cuda, AttentionParams params, const QueryTiles& tiles);
void launch_wide_attention(CudaContext& cuda, AttentionParams params, const QueryTiles& tiles);

// Calls take(std::integral_constant<int, dims>) for matrix_dims of a head that the kernels take.
template <class Take>
void with_matrix_dims(int32_t dims, Take take) {
  switch (dims) {
    case 32:
      return take(std::integral_constant<int, 32>());
    case 64:
      return take(std::integral_constant<int, 64>());
    case 80:
      return take(std::integral_constant<int, 80>());
    case 96:
      return take(std::integral_constant<int, 96>());
    case 128:
      return take(std::integral_constant<int, 128>());
    default:
      return take(std::integral_constant<int, kMostCudaHeadDim>());
  }
}

}  // namespace tinyloop::kernels
