// How far the order of a row's tokens (kernels/sampling_math.h) reaches for some of them to measure
// so much, without sorting it: digit by digit of the rank, from sums over the tokens that share the
// digits so far.
#pragma once

#include "kernels/cuda/row_blocks.cuh"
#include "kernels/sampling_math.h"

namespace tinyloop::kernels {

inline constexpr int kRankBins = 1 << 11;
static_assert(kRankBins == 2 * kRowThreads);

// Shared memory of each block.
struct RankSearchMemory {
  uint32_t low[kRankBins], high[kRankBins];  // sums of this block's tokens, in two words
  uint64_t warps[kRowWarps];
  uint64_t slices[kMostRowBlocks];  // sums over the bins that each block looks after
  uint64_t target, sum;             // what is left to reach within the bin; that of its tokens
  int digit;
};

class RankSearch {
 public:
  __device__ RankSearch(RankSearchMemory& memory, const RowBlocks& blocks)
      : memory_(memory), blocks_(blocks) {}

  // A rank down to which the tokens from `least` on are the shortest beginning that measures
  // target(what all measure) >= 1; all of them measure less: `least`. Tokens of one value measure
  // the same.
  template <class Measure, class Target>
  __device__ uint64_t rank_at(const RowPart& part, uint64_t least, Measure measure,
                              Target target_of) {
    // ---- The value ----
    if (!find_digit(part, 0, 64, 53, least, measure, target_of)) return least;
    uint64_t known = uint64_t(memory_.digit) << 53, target = memory_.target;
    const auto rest = [&](uint64_t) { return target; };
    int shift = 53;
#pragma unroll 1
    for (const int below : {42, 32}) {
      find_digit(part, known, shift, below, least, measure, rest);
      known |= uint64_t(memory_.digit) << below;
      target = memory_.target;
      shift = below;
    }
    // ---- Of those that equal the last one, as many as it takes ----
    const uint64_t each = measure(value_of_rank(known));
    target = (target + each - 1) / each;
    if (target * each >= memory_.sum) return known > least ? known : least;
    known |= uint64_t{uint32_t(~(kMostVocab - 1))};  // of ~id
    shift = 22;
#pragma unroll 1
    for (const int below : {11, 0}) {
      find_digit(
          part, known, shift, below, least, [](float) { return uint64_t{1}; }, rest);
      known |= uint64_t(memory_.digit) << below;
      target = memory_.target;
      shift = below;
    }
    return known;
  }

 private:
  // The digit [below, shift) at which the target is reached, of the tokens whose rank agrees with
  // `known` from bit `shift` on. False: they do not reach it. All threads may read it in memory_
  // until the next call.
  template <class Measure, class Target>
  __device__ bool find_digit(const RowPart& part, uint64_t known, int shift, int below,
                             uint64_t least, Measure measure, Target target_of) {
    for (int bin = int(threadIdx.x); bin < kRankBins; bin += kRowThreads) {
      memory_.low[bin] = memory_.high[bin] = 0;
    }
    __syncthreads();
    const uint32_t digit_mask = (1u << (shift - below)) - 1;
    part.for_tokens([&](int t, float x) {
      const uint64_t rank = rank_of(x, uint32_t(t));
      if (rank < least || (shift < 64 && (rank ^ known) >> shift != 0)) return;
      add(uint32_t(rank >> below) & digit_mask, measure(x));
    });
    blocks_.sync();
    return pick_bin(target_of);
  }

  __device__ void add(uint32_t bin, uint64_t value) {
    const auto low = uint32_t(value);
    const uint32_t before = atomicAdd(&memory_.low[bin], low);
    const uint32_t high = uint32_t(value >> 32) + (before + low < before ? 1u : 0u);
    if (high != 0) atomicAdd(&memory_.high[bin], high);
  }

  // Over the blocks.
  __device__ uint64_t sum_of(int bin) const {
    uint64_t sum = 0;
    for (int block = 0; block < blocks_.count(); ++block) {
      const RankSearchMemory* other = blocks_.of_block(&memory_, block);
      sum += uint64_t{other->high[bin]} << 32 | other->low[bin];
    }
    return sum;
  }

  // The sums run from the highest bin on; each block looks after a slice of them, a bin or two a
  // thread.
  template <class Target>
  __device__ bool pick_bin(Target target_of) {
    const int thread = int(threadIdx.x), slice = kRankBins / blocks_.count();
    const int bins = slice > kRowThreads ? 2 : 1;
    const int first = kRankBins - 1 - blocks_.rank() * slice - bins * thread;
    const bool has_bins = bins * thread < slice;
    const uint64_t sums[2] = {has_bins ? sum_of(first) : 0,
                              has_bins && bins > 1 ? sum_of(first - 1) : 0};
    uint64_t through = 0;
    const uint64_t own = sums[0] + sums[1], of_slice = scan(own, through);
    if (thread < blocks_.count()) {
      blocks_.of_block(&memory_, thread)->slices[blocks_.rank()] = of_slice;
    }
    blocks_.sync();
    uint64_t total = 0, before = through - own;
    for (int block = 0; block < blocks_.count(); ++block) {
      if (block < blocks_.rank()) before += memory_.slices[block];
      total += memory_.slices[block];
    }
    const uint64_t target = target_of(total);
    if (before < target && target <= before + own) {
      const int second = before + sums[0] < target ? 1 : 0;
      for (int block = 0; block < blocks_.count(); ++block) {
        RankSearchMemory* other = blocks_.of_block(&memory_, block);
        other->digit = first - second;
        other->target = target - before - (second ? sums[0] : 0);
        other->sum = sums[second];
      }
    }
    blocks_.sync();
    return target <= total;
  }

  // The sum of all threads' values; `through`: of those up to the thread's own.
  __device__ uint64_t scan(uint64_t value, uint64_t& through) {
    const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
    through = value;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const uint64_t before = __shfl_up_sync(~0u, through, step);
      if (lane >= step) through += before;
    }
    if (lane == kWarp - 1) memory_.warps[warp] = through;
    __syncthreads();
    // The sums of the warps, one a lane.
    uint64_t warps = memory_.warps[lane];
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const uint64_t before = __shfl_up_sync(~0u, warps, step);
      if (lane >= step) warps += before;
    }
    if (warp > 0) through += __shfl_sync(~0u, warps, warp - 1);
    return __shfl_sync(~0u, warps, kWarp - 1);
  }

  RankSearchMemory& memory_;
  const RowBlocks& blocks_;
};

}  // namespace tinyloop::kernels
