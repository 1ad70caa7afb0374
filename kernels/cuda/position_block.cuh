// The operands of narrow attention (kernels/cuda/narrow_attention.cuh).
//
// Keys and values go from device memory straight to the registers of the warp that works on their
// block. No lane needs what another has loaded: the products sum over the dimensions of a step in
// whatever places these stand, if they stand in the same ones on both sides, and a column of the
// weighted values may be any dimension.
//
// Lane (g, t) = (lane / 4, lane % 4), as in mma.cuh. Its places k = 2t, 2t + 1, 2t + 8, 2t + 9 of a
// step are the dimensions 4t …, one load. Before 9.0 the products take eight places at a time,
// which must stay together: there it is two loads, as mma numbers them.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention_block.cuh"

namespace tinyloop::kernels {

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

}  // namespace tinyloop::kernels
