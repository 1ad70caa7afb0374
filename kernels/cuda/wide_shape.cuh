// The shape of blocks of the wide product (kernels/cuda/wide_product.cuh), and their shared memory.
#pragma once

#include "kernels/cuda/tile_product.h"
#include "kernels/cuda/wide_cut.h"

namespace tinyloop::kernels {

inline constexpr int kWideWarps = 8;  // that multiply
inline constexpr int kWideThreads = kWideWarps * kWarp;
inline constexpr int kFillWarps =
    4;  // that fill stages: a warp group, for registers to change hands
inline constexpr int kWideBlockThreads = kWideThreads + kFillWarps * kWarp;
static_assert(kWideOutputs == 2 * kGroupOutputs);
inline constexpr int kRowBytes = kTileDepth * 2;    // of a row in a stage
inline constexpr int kSumPitch = kWideOutputs + 4;  // floats: columns start in different banks
inline constexpr size_t kMoreThanHalf = size_t{115} << 10;  // of a multiprocessor's 228 KiB
inline constexpr size_t kOperandAlign = 1024;               // of stages of rows

// Shared memory: the stages' rows, then their weights, in place of both later the sums; where k is
// split, what other blocks send; then the barriers.
template <WeightType kWeights, int kRows, bool kSplitDepth>
struct WideShape {
  static constexpr WeightType kType = kWeights;
  static constexpr int kTokens = kRows;
  static constexpr bool kSplit = kSplitDepth;
  static constexpr int kBlocks = wide_blocks({kTokens, kSplit});
  // Of a thread that multiplies, of one that does not; together what the block starts with, which
  // is what the compiler makes of the launch bounds (CudaContext::launch checks it).
  static constexpr int kManyRegisters = kBlocks == 2 ? 104 : 232;
  static constexpr int kFewRegisters = kBlocks == 2 ? 32 : 40;
  static constexpr int kStartRegisters = (64 << 10) / (kBlocks * kWideBlockThreads) / 8 * 8;
  // Who asks for more than the block has waits for ever.
  static_assert(kWideThreads * kManyRegisters + kFillWarps * kWarp * kFewRegisters <=
                kWideBlockThreads * kStartRegisters);

  // A stage: tiles of k, with the rows of each and the weights of every warp, side by side.
  static constexpr int kTileBytes = int(tile_bytes(kType));
  static constexpr int kStageTiles = kTileBytes <= 640 ? 2 : 1;
  static constexpr int kTileRowBytes = kTokens * kRowBytes;
  static constexpr int kStageRowBytes = kStageTiles * kTileRowBytes;
  static constexpr int kWarpStageBytes = kStageTiles * kTileBytes;
  static constexpr int kStageWeightBytes = kWideWarps * kWarpStageBytes;

  // What one block sends another: the sums of an eighth of the rows.
  static constexpr int kSliceRows = kTokens / kProductGroups;
  static constexpr int kSliceBytes = kSliceRows * kSumPitch * int(sizeof(float));
  static constexpr int kReceivedBytes = kSplit ? kProductGroups * kSliceBytes : 0;

  static constexpr int kMostStages = 8;
  struct Barriers {
    uint64_t full[kMostStages], empty[kMostStages];  // empty once every warp has read the stage
    uint64_t received;
  };
  static constexpr int kMostBytes = (kBlocks == 2 ? 110 : 222) << 10;
  static constexpr int kRoom = kMostBytes - int(kOperandAlign + sizeof(Barriers)) - kReceivedBytes;
  static constexpr int kFittingStages = kRoom / (kStageRowBytes + kStageWeightBytes);
  static constexpr int kStages = kFittingStages < kMostStages ? kFittingStages : kMostStages;

  static constexpr size_t kWeightsAt = size_t{kStages} * kStageRowBytes;
  static constexpr size_t kReceivedAt = kWeightsAt + size_t{kStages} * kStageWeightBytes;
  static constexpr size_t kBarriersAt = kReceivedAt + kReceivedBytes;
  static constexpr size_t kBytes = kOperandAlign + kBarriersAt + sizeof(Barriers);
  // What a block asks for: more than half of what there is, where none of its kind is to join it.
  static constexpr size_t kLaunchBytes =
      kBlocks == 2 && !kSplit && kBytes < kMoreThanHalf ? kMoreThanHalf : kBytes;
  static_assert(!kSplit || kTokens <= kMostSplitTokens);
  static_assert(kStageTiles <= kFillWarps);
  static_assert(kStages >= 2 && kReceivedAt >= size_t{kProductGroups} * kSliceBytes);
  static_assert(kBlocks * (kBytes + kStaticShared) <= size_t{228} << 10);
};

}  // namespace tinyloop::kernels
