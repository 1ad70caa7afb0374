// Products for more than 16 rows, on the warp-group tensor cores of compute capability 9.0.
//
// A block is two warp groups that multiply, each with 64 outputs (of the gate and of the up matrix
// where both are wanted), and a third that fills the stages they read: rows by the tensor copy
// engine, weights by plain copies. Weights become FP16 in registers and are multiplied from there:
// no weight is decoded twice for the rows of a block. Nothing in the loop over k waits for the
// whole block: a warp waits for a stage, and for its warp group's products.
#pragma once

#include <cstddef>

#include "kernels/cuda/copies.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/wide_end.cuh"
#include "kernels/cuda/wide_shape.cuh"
#include "kernels/cuda/wide_weights.cuh"

namespace tinyloop::kernels {

// CUtensorMap aligns the whole as the copy engine wants it.
struct WideArgs {
  CUtensorMap rows;
  ProductArgs product;
};

// ---- Stages -------------------------------------------------------------------------------------

// Fills the stages: the work of kFillWarps warps, each of which asks for its share of every stage.
// Lane l of warp f asks for the weights of warp kShare · f + l; lane 0 for the rows of tile f too.
template <class Shape>
class StageFiller {
 public:
  static constexpr int kShare = kWideWarps / kFillWarps;

  // `weights`: of that warp, where there is such a one.
  __device__ StageFiller(const CUtensorMap* map, const uint8_t* weights, uint8_t* memory,
                         typename Shape::Barriers& barriers, int first_tile, int tiles,
                         int first_row, int warp, int lane)
      : map_(map),
        weights_(weights),
        memory_(memory),
        barriers_(barriers),
        first_tile_(first_tile),
        tiles_(tiles),
        first_row_(first_row),
        warp_(warp),
        lane_(lane) {}

  // Weights of the first stages. Others may use the barriers after the block has synchronised.
  __device__ void start() const {
    if (warp_ == 0 && lane_ == 0) init_barriers();
    publish_copy_barriers();
    sync_threads<2, kFillWarps * kWarp>();
#pragma unroll 1
    for (int i = 0; i < min(Shape::kStages, fills()); ++i) fill_weights(i, i);
  }

  // Once the rows are in memory: all the rest.
  __device__ void run() const {
    const int count = fills();
#pragma unroll 1
    for (int i = 0; i < min(Shape::kStages, count); ++i) fill_rows(i, i);
    int stage = 0, phase = 0;
#pragma unroll 1
    for (int i = Shape::kStages; i < count; ++i) {
      wait_copy_barrier(barriers_.empty + stage, phase);
      fill_weights(i, stage);
      fill_rows(i, stage);
      if (++stage == Shape::kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }

 private:
  __device__ void init_barriers() const {
    prefetch_map(map_);
    for (int i = 0; i < Shape::kStages; ++i) {
      init_barrier(barriers_.full + i, kFillWarps);
      init_barrier(barriers_.empty + i, kWideWarps);
    }
    if (!Shape::kSplit) return;
    init_barrier(&barriers_.received, 1);
    expect_bytes(&barriers_.received, Shape::kReceivedBytes);
  }

  __device__ int fills() const {
    return (tiles_ + Shape::kStageTiles - 1) / Shape::kStageTiles;
  }
  __device__ int tiles_of(int fill) const {
    return min(Shape::kStageTiles, tiles_ - fill * Shape::kStageTiles);
  }

  // Says what to expect of the rows as well.
  __device__ void fill_weights(int fill, int stage) const {
    const int tiles = tiles_of(fill), bytes = tiles * Shape::kTileBytes;
    if (lane_ == 0) {
      expect_bytes(barriers_.full + stage,
                   bytes * kShare + (warp_ < tiles ? Shape::kTileRowBytes : 0));
    }
    __syncwarp();
    if (lane_ >= kShare) return;
    copy_bulk(memory_ + Shape::kWeightsAt +
                  (stage * kWideWarps + warp_ * kShare + lane_) * Shape::kWarpStageBytes,
              weights_ + fill * Shape::kWarpStageBytes, bytes, barriers_.full + stage);
  }

  __device__ void fill_rows(int fill, int stage) const {
    if (lane_ != 0 || warp_ >= tiles_of(fill)) return;
    copy_box(memory_ + stage * Shape::kStageRowBytes + warp_ * Shape::kTileRowBytes, map_,
             (first_tile_ + fill * Shape::kStageTiles + warp_) * kTileDepth, first_row_,
             barriers_.full + stage);
  }

  const CUtensorMap* map_;
  const uint8_t* weights_;
  uint8_t* memory_;
  typename Shape::Barriers& barriers_;
  const int first_tile_, tiles_, first_row_, warp_, lane_;
};

// ---- Products -----------------------------------------------------------------------------------

// The compiler must not move reads of the sums across the wait for the products.
template <int kCount>
__device__ inline void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

// A multiplying warp's way through the stages. Places move along with the stage: the compiler would
// work them out anew at every stage, from the block's place in the cluster on.
template <class Shape>
class StageReader {
 public:
  static constexpr int kSums = Shape::kTokens / 2;  // a thread's share of 64 x kTokens
  using Tile = WeightTile<Shape::kType>;
  // FP16 weights are operands as they come; they are loaded when no products are on their way. For
  // others kPending steps of 16 values of k, each a group of its own, are on their way while the
  // next operands are made.
  static constexpr bool kDecodes = Shape::kType != WeightType::f16;
  static constexpr int kPending = 2;

  __device__ StageReader(const uint8_t* memory, typename Shape::Barriers& barriers, int warp,
                         int lane)
      : weights_(memory + Shape::kWeightsAt + warp * Shape::kWarpStageBytes),
        rows_(uint32_t(swizzled_operand(shared_address(memory)))),
        full_(shared_address(barriers.full)),
        lane_(lane) {}

  __device__ void wait() const {
    wait_barrier(full_, phase_);
    if (!kDecodes) wait_products<0>();
  }
  __device__ Tile tile(int i) const {
    return shared_tile<Shape::kType>(weights_ + i * Shape::kTileBytes, lane_);
  }

  // The products of tile kTile of the stage, added to the sums or in place of them.
  template <int kTile>
  __device__ void multiply(Tile& weights, bool add, float (&sums)[kSums]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (kDecodes) pin(weights);
      uint32_t operands[4][4];
      weights.decode(operands);
      if (kDecodes || k == 0) begin_products();
      wgmma_k16(sums, operands[k], rows(kTile * (Shape::kTileRowBytes >> 4) + k * 2), k > 0 || add);
      if (kDecodes || k == 3) commit_products();
      if (kDecodes) wait_products<kPending>();
      // Those that read the stage before this one have ended.
      if (kTile == 0 && k == (kDecodes ? kPending - 1 : 0) && releases_) arrive_barrier(read_);
    }
  }

  __device__ void advance() {
    constexpr int kEmptyAt = offsetof(typename Shape::Barriers, empty);
    releases_ = lane_ == 0;
    read_ = full_ + kEmptyAt;
    const bool wraps = ++stage_ == Shape::kStages;
    const int step = wraps ? 1 - Shape::kStages : 1;
    if (wraps) stage_ = 0;
    phase_ ^= int(wraps);
    weights_ += step * Shape::kStageWeightBytes;
    rows_ += uint32_t(step * (Shape::kStageRowBytes >> 4));
    full_ += uint32_t(step * int(sizeof(uint64_t)));
  }

 private:
  // Operand B. The low half is the address: adding to it alone is cheaper.
  __device__ uint64_t rows(int at) const {
    return swizzled_operand(0) >> 32 << 32 | (rows_ + uint32_t(at));
  }

  const uint8_t* weights_;  // of the warp
  uint32_t rows_, full_;
  const int lane_;
  int stage_ = 0, phase_ = 0;
  bool releases_ = false;
  uint32_t read_ = 0;  // the barrier of the stage before
};

// The products of `tiles` tiles: of one group of k where k is split, else of all of them, the
// groups' sums added up in order.
template <class Shape, int kSums>
__device__ inline void add_products(StageReader<Shape>& stages, int tiles, int depth,
                                    float (&total)[kSums]) {
  float sums[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = total[i] = 0.0f;
  if (tiles == 0) return;  // a group without tiles
  int tile = 0, group = 0, group_first = 0, group_end = 0;
  const auto end_group = [&] {
    wait_products<0>();
    pin(sums);
#pragma unroll
    for (int i = 0; i < kSums; ++i) total[i] = Shape::kSplit ? sums[i] : total[i] + sums[i];
  };
  const auto next_group = [&] {
    group_first = tile;
    while (group_end == tile) group_end = group_begin(++group, depth);
  };
  // False after the last tile.
  const auto step = [&]<int kTile>(std::integral_constant<int, kTile>, auto& weights) {
    stages.template multiply<kTile>(weights, tile != group_first, sums);
    if (++tile == tiles) return false;
    if (!Shape::kSplit && tile == group_end) {
      end_group();
      next_group();
    }
    return true;
  };
  if (!Shape::kSplit) next_group();
#pragma unroll 1
  for (;; stages.advance()) {
    stages.wait();
    auto first = stages.tile(0), second = stages.tile(Shape::kStageTiles - 1);
    if (!step(std::integral_constant<int, 0>{}, first)) break;
    if (Shape::kStageTiles == 1) continue;
    if (!step(std::integral_constant<int, 1>{}, second)) break;
  }
  end_group();
}

// ---- The kernel ---------------------------------------------------------------------------------

template <WeightType kType, int kTokens, bool kSplit>
__global__ void __launch_bounds__(kWideBlockThreads, WideShape<kType, kTokens, kSplit>::kBlocks)
    wide_kernel(const __grid_constant__ WideArgs wide) {
#ifdef TINYLOOP_WGMMA
  using Shape = WideShape<kType, kTokens, kSplit>;
  using End = WideEnd<Shape>;
  const ProductArgs& args = wide.product;
  extern __shared__ uint8_t unaligned[];
  __shared__ WideTargets<kTokens> targets;
  uint8_t* memory =
      unaligned + (kOperandAlign - shared_address(unaligned) % kOperandAlign) % kOperandAlign;
  auto& barriers = *reinterpret_cast<typename Shape::Barriers*>(memory + Shape::kBarriersAt);
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;

  // ---- Which outputs, which rows, which k ----
  const int rank = kSplit ? int(blockIdx.x) % kProductGroups : 0;
  // Blocks of all rows for one unit follow one another: its weights come from memory once.
  const int unit = kSplit ? int(blockIdx.x) / kProductGroups : int(blockIdx.y);
  const int first_row = int(kSplit ? blockIdx.y : blockIdx.x) * kTokens;
  const bool paired = args.end == ProductEnd::swiglu;
  int part_index = 0;  // of y
  for (int p = 1; p < args.part_count && !paired; ++p) {
    if (unit >= args.parts[p].first_unit) part_index = p;
  }
  const ProductPart& part = args.parts[part_index];
  const int unit_tiles = (paired ? kGroupOutputs : kWideOutputs) / kTileOutputs;
  const int unit_tile = (unit - part.first_unit) * unit_tiles;
  const int begin = kSplit ? group_begin(rank, args.depth) : 0;
  const int end = kSplit ? group_begin(rank + 1, args.depth) : args.depth;
  const auto weights_of = [&](int w) {
    const TiledMatrix& matrix = args.parts[paired ? w / 4 : part_index].weights;
    // Beyond the matrix the last tile stands in; its sums are not stored.
    const int row_tile = min(unit_tile + (paired ? w % 4 : w), matrix.row_tiles - 1);
    return matrix.tiles + (int64_t{row_tile} * args.depth + begin) * Shape::kTileBytes;
  };

  // ---- What does not depend on the kernel ahead ----
  using Filler = StageFiller<Shape>;
  const bool fills = warp >= kWideWarps;
  const int filler_warp = fills ? warp - kWideWarps : 0;
  const Filler filler(&wide.rows,
                      weights_of(filler_warp * Filler::kShare + min(lane, Filler::kShare - 1)),
                      memory, barriers, begin, end - begin, first_row, filler_warp, lane);
  if (fills) filler.start();
  const End ends(args, part, part_index, first_row, unit_tile * kTileOutputs, targets);
  __syncthreads();
  if (kSplit) arrive_cluster_relaxed();  // others may count on this block's barriers

  // ---- The warp group that fills the stages ----
  if (fills) {
    give_registers<Shape::kFewRegisters>();
    wait_for_previous();
    release_next();
    filler.run();
    if (kSplit) {  // as the others, who use both
      wait_cluster();
      arrive_cluster_relaxed();
      wait_cluster();
    }
    return;
  }

  // ---- Products ----
  take_registers<Shape::kManyRegisters>();
  StageReader<Shape> stages(memory, barriers, warp, lane);
  wait_for_previous();
  release_next();
  ends.find_factors(warp, lane);
  float4 before = {};
  if constexpr (kSplit) {
    with_end(args.end, [&](auto e) { before = ends.template load_split<decltype(e)::value>(); });
  }
  float sums[kTokens / 2];  // a thread's share of 64 x kTokens
  add_products(stages, end - begin, args.depth, sums);

  // ---- Ends ----
  sync_threads<1, kWideThreads>();  // nobody reads the stages any more
  auto* shared = reinterpret_cast<float*>(memory);
  share_sums(sums, shared);
  HalfPairs halves;
  if constexpr (kSplit) {
    publish_to_copies();
    sync_threads<1, kWideThreads>();
    wait_cluster();  // since the prologue
    uint8_t* received = memory + Shape::kReceivedAt;
    if (threadIdx.x < kProductGroups) {
      const int to = (rank + int(threadIdx.x)) % kProductGroups;
      send_to_rank(received + rank * Shape::kSliceBytes, memory + to * Shape::kSliceBytes,
                   Shape::kSliceBytes, &barriers.received, to);
    }
    wait_copy_barrier(&barriers.received, 0);
    arrive_cluster_relaxed();
    with_end(args.end, [&](auto e) {
      ends.template finish_split<decltype(e)::value>(reinterpret_cast<const float*>(received),
                                                     before, halves);
    });
    halves.report(args.counters);
    wait_cluster();  // all have received what this block sent
  } else {
    sync_threads<1, kWideThreads>();
    with_end(args.end, [&](auto e) { ends.template finish<decltype(e)::value>(shared, halves); });
    halves.report(args.counters);
  }
#else
  __trap();  // never launched without CudaContext::has_warp_groups()
#endif
}

}  // namespace tinyloop::kernels
