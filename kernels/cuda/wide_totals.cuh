// What wide attention (kernels/cuda/wide_attention.cu) has of a split, and how splits become
// results.
#pragma once

#include "kernels/cuda/partial_results.cuh"

namespace tinyloop::kernels {

inline constexpr int kWarpQueries = kWideQueries / kAttentionWarps;
static_assert(kWarpQueries == 16);  // the rows of a product

// What a warp has of a split: weighted values, laid out as the sums of products, and states.
template <int kDim>
struct SplitSums {
  float values[kDim / 8][4] = {};
  SoftmaxState state[2];

  // Another block's: weighted values of dimensions 8d …
  __device__ void take(int d, const float (&next)[4], const SoftmaxStep (&step)[2]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) step[i / 2].apply(values[d][i], next[i]);
  }
};

// One block of threads works on the tile: each lane keeps its part of the total in shared memory
// and merges a split of its own into it.
template <int kDim>
class OwnTotal {
 public:
  __device__ explicit OwnTotal(float* results, int = 0)
      : at_(results +
            (int(threadIdx.x) / kWarp * kWarpQueries + int(threadIdx.x) % kWarp / 4) *
                kPartialPitch<kDim> +
            int(threadIdx.x) % 4 * 2) {}

  __device__ void take(const SplitSums<kDim>& split) {
    const bool fresh[2] = {state_[0].sum == 0.0f, state_[1].sum == 0.0f};
    const SoftmaxStep step[2] = {merge(state_[0], split.state[0]),
                                 merge(state_[1], split.state[1])};
#pragma unroll
    for (int i = 0; i < kDim / 4; ++i) {
      float2 old = fresh[i % 2] ? float2{} : *place(i);
      step[i % 2].apply(old.x, split.values[i / 2][i % 2 * 2]);
      step[i % 2].apply(old.y, split.values[i / 2][i % 2 * 2 + 1]);
      *place(i) = old;
    }
  }
  __device__ void store(const AttentionParams& args, const QueryTile& tile, int kv_head,
                        HalfPairs& halves) const {
    const int thread = int(threadIdx.x), head_dim = args.cache.head_dim;
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
      const int query = thread / kWarp * kWarpQueries + thread % kWarp / 4 + i * 8;
      if (query >= tile.queries) continue;
      const int64_t start = query_start(args, args.out, tile, kv_head, query);
      const float sum = i == 0 ? state_[0].sum : state_[1].sum;
#pragma unroll 4
      for (int d = 0; d < kDim / 8; ++d) {
        const int dim = d * 8 + thread % 4 * 2;
        if (dim >= head_dim) continue;
        const float2 value = *place(d * 2 + i);
        store_pair(args.out, start + dim, {__fdividef(value.x, sum), __fdividef(value.y, sum)},
                   dim + 1 < head_dim, halves);
      }
    }
  }

 private:
  // Pair i / 2 of row i % 2.
  __device__ float2* place(int i) const {
    return reinterpret_cast<float2*>(at_ + i % 2 * 8 * kPartialPitch<kDim> + i / 2 * 8);
  }

  float* const at_;
  SoftmaxState state_[2];
};

// A cluster works on the tile: each block of threads has its share of the rows' total in registers,
// and takes the splits of all, in order, from where their blocks have put them.
template <int kDim, int kParts>
class SharedTotal {
 public:
  __device__ SharedTotal(float* results, int part) : results_(results), part_(part) {}

  __device__ void put(const SplitSums<kDim>& split) const {
    const int thread = int(threadIdx.x);
    float* at = results_ +
                (thread / kWarp * kWarpQueries + thread % kWarp / 4) * kPartialPitch<kDim> +
                thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i, at += 8 * kPartialPitch<kDim>) {
#pragma unroll
      for (int d = 0; d < kDim / 8; ++d) {
        *reinterpret_cast<float2*>(at + d * 8) = {split.values[d][i * 2],
                                                  split.values[d][i * 2 + 1]};
      }
      if (thread % 4 == 0) {
        *reinterpret_cast<float2*>(at + kDim) = {split.state[i].most, split.state[i].sum};
      }
    }
  }
  // Of the first `count` blocks of the cluster.
  __device__ void take(int count) {
#if __CUDA_ARCH__ >= 900
    const auto cluster = cooperative_groups::this_cluster();
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      if (!has(i)) continue;
      const auto at = [&](int part) {
        return cluster.map_shared_rank(results_ + part_ * kPartQueries * kPartialPitch<kDim>,
                                       unsigned(part));
      };
      merge_pieces<kDim, kParts>(total_[i], at, 0, count, index(i));
    }
#endif
  }
  __device__ void store(const AttentionParams& args, const QueryTile& tile, int kv_head,
                        HalfPairs& halves) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int query = part_ * kPartQueries + Piece<kDim>::row(index(i));
      if (!has(i) || query >= tile.queries) continue;
      store_piece(args, query_start(args, args.out, tile, kv_head, query), total_[i], index(i),
                  halves);
    }
  }

 private:
  static constexpr int kPartQueries = kWideQueries / kParts;
  static constexpr int kAll = kPartQueries * Piece<kDim>::kOfRow;
  static constexpr int kPieces = (kAll + kAttentionThreads - 1) / kAttentionThreads;

  __device__ static int index(int i) {
    return int(threadIdx.x) + i * kAttentionThreads;
  }
  __device__ static bool has(int i) {
    return index(i) < kAll;
  }

  float* const results_;
  const int part_;
  Piece<kDim> total_[kPieces];
};

}  // namespace tinyloop::kernels
