// Keys and values on their way to shared memory.
//
// A stream is a sequence of blocks of positions. Of each block it brings one group after the other,
// the keys of its pages, then the values, a copy a page: matrices of a head in a page lie one
// after another (PageOrder::matrices). `ring_groups` groups are on the way or being read at a time.
#pragma once

#include <climits>

#include "kernels/cuda/attention_args.cuh"
#include "kernels/cuda/copies.cuh"

namespace tinyloop::kernels {

// The blocks of positions that a stream goes through: runs of 1 << run_shift blocks, one every
// `stride`, of which the first run begins at `first` and leaves out its first `skip` blocks.
struct BlockSequence {
  int first, skip, run_shift, stride;
  int count;

  // Up to block `end`; skip leaves something of it.
  __device__ static BlockSequence until(int end, int first, int skip, int run_shift, int stride) {
    const int blocks = max(0, end - first);
    const int count = (blocks / stride << run_shift) + min(blocks % stride, 1 << run_shift) - skip;
    return {first, skip, run_shift, stride, max(0, count)};
  }
  __device__ int block(int n) const {
    n += skip;
    return first + (n >> run_shift) * stride + (n & ((1 << run_shift) - 1));
  }
};

inline constexpr int kMostRingGroups = 4;

// kWarps: warps that read what the first of them has asked for: 1, or all of the block of threads,
// which then call everything together.
template <int kDim, int kWarps>
class BlockStream {
 public:
  static constexpr int kPageBytes = kPagePositions * kDim * int(sizeof(__half));
  static constexpr int kGroupBytes = kBlockPages * kPageBytes;

  // memory: ring_groups groups; barriers: ring_groups, not yet initialised; `sequence` within the
  // range. `lane` of the first warp; the others pass a negative one.
  __device__ BlockStream(const AttentionParams& args, const TileRange& range, int kv_head,
                         const BlockSequence& sequence, uint8_t* memory, uint64_t* barriers,
                         int lane)
      : args_(args),
        range_(range),
        sequence_(sequence),
        memory_(memory),
        barriers_(barriers),
        lane_(lane),
        depth_(args.ring_groups),
        groups_(2 * sequence.count),
        head_offset_(args.cache.layer_offset + int64_t{kv_head} * 2 * kPageBytes) {
    if (lane_ < 0) return;
    if (lane_ < depth_) init_copy_barrier(barriers_ + lane_);
    publish_copy_barriers();
    sources_[0] = find_source(0);
    sources_[1] = find_source(kBlocksAhead);
  }

  // Ahead of the wait (device_tools.cuh): the copies of the first groups, as far as their pages
  // hold positions below `complete` alone. Then, behind it, those of the other pages.
  __device__ void start(int complete) {
    if (lane_ < 0) return;
#pragma unroll 1
    for (int group = 0; group < min(depth_, groups_); ++group) {
      expect(group, group);
      copy(group, group, 0, complete);
    }
  }
  __device__ void start_rest(int complete) {
    if (lane_ < 0) return;
#pragma unroll 1
    for (int group = 0; group < min(depth_, groups_); ++group) {
      copy(group, group, complete, kNoEnd);
    }
  }

  // The group at hand, once it has arrived: page after page, [kDim / 8][16][8]. Of pages outside
  // the range nothing arrives. Address in shared memory.
  __device__ uint32_t wait() const {
    wait_copy_barrier(barriers_ + slot_, phase_);
    return shared_address(memory_ + slot_ * kGroupBytes);
  }
  // Nobody reads the group at hand any more: on to the next.
  __device__ void release() {
    if constexpr (kWarps == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
    const int next = group_ + depth_;
    if (lane_ >= 0 && next < groups_) {
      expect(next, slot_);
      copy(next, slot_, 0, kNoEnd);
    }
    ++group_;
    if (++slot_ == depth_) {
      slot_ = 0;
      phase_ ^= 1;
    }
  }

  // After both groups of block `n` of the sequence: looks for the pages of blocks far ahead.
  __device__ void look_ahead(int n) {
    if (lane_ < 0 || (n + 1) % kBlocksAhead != 0) return;
    const std::byte* found = find_source(n + 1 + kBlocksAhead);
    if (n / kBlocksAhead % 2 == 0) {
      sources_[0] = found;
    } else {
      sources_[1] = found;
    }
  }

 private:
  static constexpr int kNoEnd = INT_MAX;
  static constexpr int kBlocksAhead = kWarp / kBlockPages;  // whose pages the lanes know

  // Where the lane's page of the kBlocksAhead blocks from `n` on has the keys of the head; null
  // where there is nothing to copy.
  __device__ const std::byte* find_source(int n) const {
    n += lane_ / kBlockPages;
    if (n >= sequence_.count) return nullptr;
    const int position = page_position(n);
    if (position >= range_.high || position + kPagePositions <= range_.low) return nullptr;
    return args_.cache.page(range_.table, position) + head_offset_;
  }
  __device__ int page_position(int n) const {
    return sequence_.block(n) * kBlockPositions + lane_ % kBlockPages * kPagePositions;
  }
  // The lane's, where it has a page of the group.
  __device__ const std::byte* source(int group) const {
    const int n = group / 2;
    const std::byte* keys = sources_[0];
    if (n / kBlocksAhead % 2 != 0) keys = sources_[1];
    return keys != nullptr && lane_ / kBlockPages == n % kBlocksAhead
               ? keys + group % 2 * kPageBytes
               : nullptr;
  }

  // Tells the barrier of all that the group brings.
  __device__ void expect(int group, int slot) const {
#if __CUDA_ARCH__ >= 900
    const int pages = __popc(__ballot_sync(~0u, source(group) != nullptr));
    if (lane_ == 0) expect_bytes(barriers_ + slot, pages * kPageBytes);
    __syncwarp();
#endif
  }
  // Starts the copies of a group's pages that end in (from, to].
  __device__ void copy(int group, int slot, int from, int to) const {
    const std::byte* keys_or_values = source(group);
    uint8_t* target = memory_ + slot * kGroupBytes;
#if __CUDA_ARCH__ >= 900
    const int end = page_position(group / 2) + kPagePositions;
    if (keys_or_values != nullptr && end > from && end <= to) {
      copy_bulk(target + lane_ % kBlockPages * kPageBytes,
                reinterpret_cast<const uint8_t*>(keys_or_values), kPageBytes, barriers_ + slot);
    }
#else
    if (to < kNoEnd) return;  // kernels do not overlap: all of it in start_rest()
    for (int p = 0; p < kBlockPages; ++p) {
      const int owner = group / 2 % kBlocksAhead * kBlockPages + p;
      const auto* of_page = reinterpret_cast<const uint8_t*>(
          __shfl_sync(~0u, reinterpret_cast<unsigned long long>(keys_or_values), owner));
      if (of_page == nullptr) continue;
      for (int at = lane_ * 16; at < kPageBytes; at += kWarp * 16) {
        copy_16(shared_address(target + p * kPageBytes + at), of_page + at, true);
      }
    }
    arrive_copies(barriers_ + slot);
#endif
  }

  const AttentionParams& args_;
  const TileRange& range_;
  const BlockSequence sequence_;
  uint8_t* const memory_;
  uint64_t* const barriers_;
  const int lane_, depth_, groups_;
  const int64_t head_offset_;
  const std::byte* sources_[2] = {};  // of the blocks at hand and those behind them, by turns
  int group_ = 0, slot_ = 0, phase_ = 0;
};

}  // namespace tinyloop::kernels
