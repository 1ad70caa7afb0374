// Partial results of attention, of some positions: [query][kDim + 4] in shared memory, weighted
// values, then the state.
#pragma once

#include <cooperative_groups.h>

#include "kernels/cuda/attention_args.cuh"
#include "kernels/cuda/softmax_state.cuh"

namespace tinyloop::kernels {

template <int kDim>
inline constexpr int kPartialPitch = kDim + 4;  // whole, shifted vectors

// Four dimensions of a row: `index` counts them row after row.
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

// In order, those of kCount partial results that lie in [begin, end). at(i): where number i is.
template <int kDim, int kCount, class At>
__device__ void merge_pieces(Piece<kDim>& total, At at, int begin, int end, int index) {
  Piece<kDim> next[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i >= begin && i < end) next[i] = Piece<kDim>::of(at(i), index);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) total.take(next[i]);  // what is not there changes nothing
}

// Until all threads of the cluster are here: what they have put is there for all.
__device__ inline void sync_cluster() {
#if __CUDA_ARCH__ >= 900
  cooperative_groups::this_cluster().sync();
#else
  __trap();  // never launched without CudaContext::has_warp_groups()
#endif
}

// Four dimensions of a finished row, which begins at out_start.
template <int kDim>
__device__ void store_piece(const AttentionParams& args, int64_t out_start,
                            const Piece<kDim>& total, int index, HalfPairs& halves) {
  const int d = Piece<kDim>::dim(index), head_dim = args.cache.head_dim;
  const float sum = total.state.sum;
  if (d < head_dim) {
    store_pair(args.out, out_start + d,
               {__fdividef(total.value.x, sum), __fdividef(total.value.y, sum)}, d + 1 < head_dim,
               halves);
  }
  if (d + 2 < head_dim) {
    store_pair(args.out, out_start + d + 2,
               {__fdividef(total.value.z, sum), __fdividef(total.value.w, sum)}, d + 3 < head_dim,
               halves);
  }
}

}  // namespace tinyloop::kernels
