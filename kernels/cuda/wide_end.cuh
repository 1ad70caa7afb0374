// The ends of a block of the wide product (kernels/cuda/wide_product.cuh): sums to shared memory,
// and from there, over the cluster where k is split, to where the results go.
//
// A block of 128 rows is as long at its end as it has to wait for what it reads there, so a thread
// asks for many quads at once.
#pragma once

#include "kernels/cuda/quad_end.cuh"
#include "kernels/cuda/wide_shape.cuh"

namespace tinyloop::kernels {

// Where the block's results go, which the host has staged: read ahead of the wait. Factors of the
// rows' norms: written behind it.
template <int kTokens>
struct WideTargets {
  CachePlace places[kTokens];  // qkv
  int32_t y_rows[kTokens];
  float factors[kTokens];
};

template <class Shape>
class WideEnd {
 public:
  __device__ WideEnd(const ProductArgs& args, const ProductPart& part, int part_index,
                     int first_row, int first_output, WideTargets<Shape::kTokens>& targets)
      : args_(args),
        part_(part),
        part_index_(part_index),
        first_row_(first_row),
        rows_(min(args.rows - first_row, Shape::kTokens)),
        first_output_(first_output),
        targets_(targets) {
    const int token = int(threadIdx.x);
    if (token >= rows_) return;
    targets.y_rows[token] =
        part.y.index ? __ldcg(part.y.index + first_row + token) : first_row + token;
    if (args.end == ProductEnd::qkv) {
      targets.places[token] = place_of_row(args.cache, first_row + token);
    }
  }

  // The factors of the rows that this block ends, by the warps that multiply: all at once, while
  // the first stage is on its way. They have been written once those warps have synchronised.
  // (Without loops whose length differs from lane to lane: behind one the compiler keeps nothing in
  // uniform registers, and the products spill.)
  __device__ void find_factors(int warp, int lane) const {
    constexpr int kRows = Shape::kSplit ? Shape::kSliceRows : Shape::kTokens;
    constexpr int kOfWarp = (kRows + kWideWarps - 1) / kWideWarps;
    const int begin = Shape::kSplit ? rank() * kRows : 0;
    const float* squares = args_.squares;
    if (!squares) {
      if (int(threadIdx.x) < kRows) targets_.factors[begin + int(threadIdx.x)] = 1.0f;
      return;
    }
    squares += int64_t{first_row_} * square_pitch(args_.norm_cols);
    float factors[kOfWarp];
    row_factors(squares, args_.norm_cols, args_.eps, begin + warp, kWideWarps,
                min(rows_, begin + kRows), lane, factors);
#pragma unroll
    for (int r = 0; r < kOfWarp; ++r) {
      const int row = begin + warp + r * kWideWarps;
      if (lane == r && row < begin + kRows) targets_.factors[row] = factors[r];
    }
  }

  // The sums are in this block: all quads.
  template <ProductEnd kEnd>
  __device__ void finish(const float* sums, HalfPairs& halves) const {
    constexpr int kMost = Shape::kBlocks == 2 ? 4 : 8;  // for which there are registers
    if (has_whole_quads(args_, part_, first_output_, outputs(kEnd))) {
      finish_quads<kEnd, true, kMost>(sums, halves);
    } else {
      finish_quads<kEnd, false, 1>(sums, halves);
    }
  }

  // Where k is split a thread ends one quad, or none: of the eighth of the rows that this rank has.
  template <ProductEnd kEnd>
  __device__ float4 load_split() const {
    const int token = split_token<kEnd>();
    if (token >= rows_) return {};
    const ProductTarget to = target<kEnd>(token);
    if (has_whole_quads(args_, part_, first_output_, outputs(kEnd))) {
      return place_of<kEnd, true>().template load<kEnd>(args_, to);
    }
    return place_of<kEnd, false>().template load<kEnd>(args_, to);
  }
  // The groups' sums of this rank's rows, one group after the other.
  template <ProductEnd kEnd>
  __device__ void finish_split(const float* sums, float4 before, HalfPairs& halves) const {
    const int token = split_token<kEnd>();
    if (token >= rows_) return;
    const float* from = sums + (token - rank() * Shape::kSliceRows) * kSumPitch + column_of<kEnd>();
    const float4 gate = sum_of_groups(from);
    const float4 sum = kEnd == ProductEnd::swiglu ? sum_of_groups(from + kGroupOutputs) : gate;
    if (has_whole_quads(args_, part_, first_output_, outputs(kEnd))) {
      store<kEnd>(place_of<kEnd, true>(), token, sum, gate, before, halves);
    } else {
      store<kEnd>(place_of<kEnd, false>(), token, sum, gate, before, halves);
    }
  }

 private:
  static constexpr int outputs(ProductEnd end) {
    return end == ProductEnd::swiglu ? kGroupOutputs : kWideOutputs;
  }
  template <ProductEnd kEnd, bool kWhole, int kMost>
  __device__ void finish_quads(const float* sums, HalfPairs& halves) const {
    constexpr int kStep = kWideThreads / (outputs(kEnd) / 4), kAll = Shape::kTokens / kStep;
    constexpr int kQuads = kAll < kMost ? kAll : kMost;
    const auto place = place_of<kEnd, kWhole>();
    sums += column_of<kEnd>();
#pragma unroll 1
    for (int token = int(threadIdx.x) / (outputs(kEnd) / 4); token < rows_;
         token += kQuads * kStep) {
      float4 before[kQuads];
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const int t = token + i * kStep;
        before[i] = t < rows_ ? place.template load<kEnd>(args_, target<kEnd>(t)) : float4{};
      }
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const int t = token + i * kStep;
        if (t >= rows_) break;
        const float* from = sums + t * kSumPitch;
        const float4 gate = *reinterpret_cast<const float4*>(from);
        float4 sum = gate;
        if (kEnd == ProductEnd::swiglu) {
          sum = *reinterpret_cast<const float4*>(from + kGroupOutputs);
        }
        store<kEnd>(place, t, sum, gate, before[i], halves);
      }
    }
  }

  // A thread's quads stand at one column. A warp's are of one row, but for swiglu.
  template <ProductEnd kEnd>
  __device__ static int column_of() {
    return int(threadIdx.x) % (outputs(kEnd) / 4) * 4;
  }
  template <ProductEnd kEnd, bool kWhole>
  __device__ QuadPlace<kWhole> place_of() const {
    return {args_, part_, part_index_, first_output_ + column_of<kEnd>()};
  }
  template <ProductEnd kEnd>
  __device__ int split_token() const {
    const int row = int(threadIdx.x) / (outputs(kEnd) / 4);
    return row < Shape::kSliceRows ? rank() * Shape::kSliceRows + row : Shape::kTokens;
  }
  __device__ static int rank() {
    return int(blockIdx.x) % kProductGroups;
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
  template <ProductEnd kEnd, class Place>
  __device__ void store(const Place& place, int token, float4 sum, float4 gate, float4 before,
                        HalfPairs& halves) const {
    const float4 y = place.template finish<kEnd>(
        args_, target<kEnd>(token), targets_.factors[token], sum, gate, before, halves);
    if (kEnd != ProductEnd::add || !args_.next.squares) return;
    const int row = first_row_ + token;
    place.put_next(args_, row, y, halves);
    // Of the quads of 16 outputs, in four neighbouring lanes of a warp whose lanes are all here.
    const float squares = unit_squares<4>(pair_squares(y.x, y.y) + pair_squares(y.z, y.w), ~0u);
    if (place.output() % kTileOutputs == 0 && place.any()) {
      args_.next.squares[int64_t{row} * square_pitch(part_.weights.outputs) +
                         place.output() / kTileOutputs] = squares;
    }
  }

  const ProductArgs& args_;
  const ProductPart& part_;
  const int part_index_;
  const int first_row_;
  const int rows_;  // of the block
  const int first_output_;
  WideTargets<Shape::kTokens>& targets_;
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
