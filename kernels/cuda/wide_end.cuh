// The ends of a block of the wide product (kernels/cuda/wide_product.cuh): sums to shared memory,
// and from there, over the cluster where k is split, to where the results go.
#pragma once

#include "kernels/cuda/product_end.cuh"
#include "kernels/cuda/wide_shape.cuh"

namespace tinyloop::kernels {

// Where the block's results go. Staged by the host, so it is read ahead of the wait.
template <int kTokens>
struct WideTargets {
  CachePlace places[kTokens];  // qkv
  int32_t y_rows[kTokens];
};

template <class Shape>
class WideEnd {
 public:
  __device__ WideEnd(const ProductArgs& args, const ProductPart& part, int part_index,
                     int first_row, int first_output, WideTargets<Shape::kTokens>& targets)
      : args_(args),
        part_(part),
        part_index_(part_index),
        rows_(args.rows - first_row),
        first_output_(first_output),
        targets_(targets) {
    const int token = int(threadIdx.x);
    if (token >= min(Shape::kTokens, rows_)) return;
    targets.y_rows[token] =
        part.y.index ? __ldcg(part.y.index + first_row + token) : first_row + token;
    if (args.end == ProductEnd::qkv) {
      targets.places[token] = place_of_row(args.cache, first_row + token);
    }
  }

  // Pairs of outputs that a thread ends where k is split: the block ends an eighth of the rows.
  static constexpr int kSplitPairs = 2;

  // What the ends of pairs from pair `first` of this thread on read beside the sums.
  template <ProductEnd kEnd, int kPairs>
  __device__ void load(int first, float2 (&before)[kPairs]) const {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      before[i] = {};
      const auto [token, output] = pair<kEnd>(first + i);
      if (!has<kEnd>(token, output)) continue;
      const ProductTarget to = target<kEnd>(token);
      if (kEnd == ProductEnd::add) before[i] = old_pair(to, first_output_ + output);
      if (kEnd == ProductEnd::qkv && part_index_ < 2) {
        before[i] = turn_of_pair(args_, to, first_output_ + output);
      }
    }
  }

  // The sums are in this block: all pairs.
  template <ProductEnd kEnd>
  __device__ void finish(const float* sums, HalfPairs& halves) const {
    constexpr int kAll = Shape::kTokens * outputs(kEnd) / 2 / kWideThreads;
    // Side by side, for the latency of what they read; few, for the size of the code.
    constexpr int kPairs = kEnd == ProductEnd::add || kEnd == ProductEnd::qkv ? 4 : 2;
    static_assert(kAll % kPairs == 0);
#pragma unroll 1
    for (int first = 0; first < kAll; first += kPairs) {
      float2 before[kPairs];
      load<kEnd>(first, before);
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const auto [token, output] = pair<kEnd>(first + i);
        const float* from = sums + token * kSumPitch + output;
        float2 sum = *reinterpret_cast<const float2*>(from), gate = sum;
        if (kEnd == ProductEnd::swiglu) {
          sum = *reinterpret_cast<const float2*>(from + kGroupOutputs);
        }
        store<kEnd>(token, output, sum, gate, before[i], halves);
      }
    }
  }

  // The groups' sums of this rank's rows, one group after the other.
  template <ProductEnd kEnd>
  __device__ void finish_split(const float* sums, const float2 (&before)[kSplitPairs],
                               HalfPairs& halves) const {
#pragma unroll
    for (int i = 0; i < kSplitPairs; i += 2) {
      const auto [token, output] = pair<kEnd>(i);
      if (!has<kEnd>(token, output)) continue;
      const float* from = sums + (token - rank() * Shape::kSliceRows) * kSumPitch + output;
      const float4 gate = sum_of_groups(from);
      const float4 sum = kEnd == ProductEnd::swiglu ? sum_of_groups(from + kGroupOutputs) : gate;
      store<kEnd>(token, output, {sum.x, sum.y}, {gate.x, gate.y}, before[i], halves);
      store<kEnd>(token, output + 2, {sum.z, sum.w}, {gate.z, gate.w}, before[i + 1], halves);
    }
  }

 private:
  struct Pair {
    int token;
    int output;
  };

  static constexpr int outputs(ProductEnd end) {
    return end == ProductEnd::swiglu ? kGroupOutputs : kWideOutputs;
  }
  // Pair i of this thread. Two neighbours where k is split: sums are read by 16 bytes.
  template <ProductEnd kEnd>
  __device__ Pair pair(int i) const {
    constexpr int kOutputs = outputs(kEnd);
    if constexpr (Shape::kSplit) {
      constexpr int kRows = Shape::kSliceRows;
      const int quad = int(threadIdx.x) + i / 2 * kWideThreads;
      const int token = quad / (kOutputs / 4);
      return {token < kRows ? rank() * kRows + token : Shape::kTokens,
              quad % (kOutputs / 4) * 4 + i % 2 * 2};
    } else {
      const int at = int(threadIdx.x) + i * kWideThreads;
      return {at / (kOutputs / 2), at % (kOutputs / 2) * 2};
    }
  }
  __device__ static int rank() {
    return int(blockIdx.x) % kProductGroups;
  }

  template <ProductEnd kEnd>
  __device__ bool has(int token, int output) const {
    return token < min(Shape::kTokens, rows_) && first_output_ + output < part_.weights.outputs;
  }
  template <ProductEnd kEnd>
  __device__ ProductTarget target(int token) const {
    return {part_, part_index_, int64_t{targets_.y_rows[token]} * part_.y.stride,
            kEnd == ProductEnd::qkv ? targets_.places[token] : CachePlace{}};
  }
  // In order.
  __device__ static float4 sum_of_groups(const float* from) {
    float4 sum = {};
#pragma unroll
    for (int group = 0; group < kProductGroups; ++group) {
      const float4 of =
          *reinterpret_cast<const float4*>(from + group * Shape::kSliceRows * kSumPitch);
      sum = {sum.x + of.x, sum.y + of.y, sum.z + of.z, sum.w + of.w};
    }
    return sum;
  }
  template <ProductEnd kEnd>
  __device__ void store(int token, int output, float2 sum, float2 gate, float2 before,
                        HalfPairs& halves) const {
    if (!has<kEnd>(token, output)) return;
    end_product<kEnd>(args_, target<kEnd>(token), first_output_ + output, sum, gate, before,
                      halves);
  }

  const ProductArgs& args_;
  const ProductPart& part_;
  const int part_index_;
  const int rows_;  // from the block's first on
  const int first_output_;
  const WideTargets<Shape::kTokens>& targets_;
};

// A thread's sums → shared memory, [row][output].
template <int kSums>
__device__ inline void share_sums(const float (&sums)[kSums], float* shared) {
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  float* mine = shared + lane % 4 * 2 * kSumPitch + warp * kTileOutputs + lane / 4;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    mine[(s / 4 * 8 + s % 2) * kSumPitch + s % 4 / 2 * 8] = sums[s];
  }
}

}  // namespace tinyloop::kernels
