// Partial results of narrow attention (kernels/cuda/narrow_attention.cuh), of some positions:
// [query][kDim + 4] in shared memory, weighted values, then the state.
#pragma once

#include "kernels/cuda/attention_block.cuh"

namespace tinyloop::kernels {

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

}  // namespace tinyloop::kernels
