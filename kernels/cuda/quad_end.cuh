// The ends of four neighbouring outputs of one row, as the wide product has them: one access of 16
// bytes each where the shapes allow it. The same bits as those of kernels/cuda/product_end.cuh.
#pragma once

#include "kernels/cuda/product_end.cuh"

namespace tinyloop::kernels {

// Whether all quads of `outputs` outputs from `first` on are whole: each in one access, of one
// head.
__device__ inline bool has_whole_quads(const ProductArgs& args, const ProductPart& part, int first,
                                       int outputs) {
  const bool heads = args.end != ProductEnd::qkv || args.cache.head_dim % 4 == 0;
  return heads && first + outputs <= part.weights.outputs && args.next.stride % 4 == 0 &&
         part.y.stride % 4 == 0 && reinterpret_cast<uintptr_t>(part.y.data) % 16 == 0;
}

// One place of a row for a thread: outputs `output` (a multiple of 4) to the next three, of which
// `count` are there. kWhole: has_whole_quads() for all of them.
template <bool kWhole>
class QuadPlace {
 public:
  __device__ QuadPlace(const ProductArgs& args, const ProductPart& part, int part_index, int output)
      : output_(output),
        count_(kWhole ? 4 : min(4, part.weights.outputs - output)),
        part_(part_index) {
    if (!kWhole || args.end != ProductEnd::qkv) return;
    head_ = quotient(output, args.cache.head_dim);
    dim_ = output - head_ * args.cache.head_dim;
  }

  __device__ int output() const { return output_; }
  __device__ bool any() const { return count_ > 0; }

  // What is there before `add`; how RoPE turns the two pairs of qkv.
  template <ProductEnd kEnd>
  __device__ float4 load(const ProductArgs& args, const ProductTarget& to) const {
    float4 before = {};
    if constexpr (kEnd == ProductEnd::add) {
      const float* at = static_cast<const float*>(to.part.y.data) + to.row_start + output_;
      if (kWhole) return __ldcg(reinterpret_cast<const float4*>(at));
      if (count_ > 0) before.x = __ldcg(at);
      if (count_ > 1) before.y = __ldcg(at + 1);
      if (count_ > 2) before.z = __ldcg(at + 2);
      if (count_ > 3) before.w = __ldcg(at + 3);
    }
    if constexpr (kEnd == ProductEnd::qkv) {
      if (part_ == 2 || count_ <= 0) return before;
      if (kWhole) {
        const float2* turns =
            args.cos_sin + (int64_t{to.place.position} * args.cache.head_dim + dim_) / 2;
        return __ldg(reinterpret_cast<const float4*>(turns));
      }
      const float2 first = turn_of_pair(args, to, output_);
      const float2 second = count_ > 2 ? turn_of_pair(args, to, output_ + 2) : float2{};
      before = {first.x, first.y, second.x, second.y};
    }
    return before;
  }

  // `factor`: of the row's norm. What `add` has written, zeros beyond the outputs.
  template <ProductEnd kEnd>
  __device__ float4 finish(const ProductArgs& args, const ProductTarget& to, float factor,
                           float4 sum, float4 gate, float4 before, HalfPairs& halves) const {
    sum = {sum.x * factor, sum.y * factor, sum.z * factor, sum.w * factor};
    if constexpr (kEnd == ProductEnd::qkv) {
      finish_qkv(args, to, sum, before, halves);
      return {};
    } else {
      if constexpr (kEnd == ProductEnd::swiglu) {
        gate = {gate.x * factor, gate.y * factor, gate.z * factor, gate.w * factor};
      }
      const float4 y = {
          ended<kEnd>(args, sum.x, gate.x, before.x), ended<kEnd>(args, sum.y, gate.y, before.y),
          ended<kEnd>(args, sum.z, gate.z, before.z), ended<kEnd>(args, sum.w, gate.w, before.w)};
      store(to.part.y, to.row_start + output_, y, halves);
      return {count_ > 0 ? y.x : 0.0f, count_ > 1 ? y.y : 0.0f, count_ > 2 ? y.z : 0.0f,
              count_ > 3 ? y.w : 0.0f};
    }
  }

  // What the next norm wants of row `row`, where add has written `y`.
  __device__ void put_next(const ProductArgs& args, int row, float4 y, HalfPairs& halves) const {
    const NextNorm& next = args.next;
    if (!kWhole) {
      for (int i = 0; i < count_; i += 2) {
        kernels::put_next(args, row, output_ + i, i == 0 ? float2{y.x, y.y} : float2{y.z, y.w},
                          next_weights(args, output_ + i), halves);
      }
      return;
    }
    const float4 weight = __ldg(reinterpret_cast<const float4*>(next.weight + output_));
    *reinterpret_cast<uint2*>(next.rows + int64_t{row} * next.stride + output_) = {
        halves(__fmul_rn(y.x, weight.x), __fmul_rn(y.y, weight.y)),
        halves(__fmul_rn(y.z, weight.z), __fmul_rn(y.w, weight.w))};
  }

 private:
  __device__ void store(const DeviceRows& y, int64_t at, float4 value, HalfPairs& halves) const {
    if (kWhole) {
      if (y.is_half) {
        *reinterpret_cast<uint2*>(static_cast<__half*>(y.data) + at) = {halves(value.x, value.y),
                                                                        halves(value.z, value.w)};
      } else {
        *reinterpret_cast<float4*>(static_cast<float*>(y.data) + at) = value;
      }
      return;
    }
    if (count_ > 0) store_pair(y, at, {value.x, value.y}, count_ > 1, halves);
    if (count_ > 2) store_pair(y, at + 2, {value.z, value.w}, count_ > 3, halves);
  }

  __device__ void finish_qkv(const ProductArgs& args, const ProductTarget& to, float4 sum,
                             float4 turn, HalfPairs& halves) const {
    if (!kWhole) {
      if (count_ > 0) end_qkv(args, to, output_, {sum.x, sum.y}, {turn.x, turn.y}, halves);
      if (count_ > 2) end_qkv(args, to, output_ + 2, {sum.z, sum.w}, {turn.z, turn.w}, halves);
      return;
    }
    float2 first = {sum.x, sum.y}, second = {sum.z, sum.w};
    if (part_ < 2) {
      first = turned(first, {turn.x, turn.y});
      second = turned(second, {turn.z, turn.w});
    }
    if (part_ == 0) {
      return store(to.part.y, to.row_start + output_, {first.x, first.y, second.x, second.y},
                   halves);
    }
    __half* at = cache_address(args, to.place, part_, head_, dim_);
    *reinterpret_cast<uint2*>(at) = {halves(first.x, first.y), halves(second.x, second.y)};
  }

  int output_, count_, part_;
  int head_ = 0, dim_ = 0;
};

}  // namespace tinyloop::kernels
