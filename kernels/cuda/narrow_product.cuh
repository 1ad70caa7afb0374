// Products for up to 16 rows: bound by the stream of weights, and by how soon a block is done.
//
// Eight warps, a set, share 16 outputs, each with one group of k; a block has up to three sets,
// which share its rows. A warp streams its tiles through a ring of its own in shared memory, over
// all the units of work that it will do. The ring fills before the rows are ready: weights do not
// depend on the kernel ahead. A block takes about half of a multiprocessor, as a rule, so that the
// next kernel's blocks find room, and fill their rings, while this one still runs.
#pragma once

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/narrow_rows.cuh"
#include "kernels/cuda/product_end.cuh"

namespace tinyloop::kernels {

// ---- Weights ------------------------------------------------------------------------------------

// Brings the tiles of this warp's group, unit after unit, into the ring. Its state is the same in
// all lanes.
template <WeightType kType, int kMatrices>
class TileRing {
 public:
  static constexpr int kTileBytes = int(tile_bytes(kType));

  // The warp's units are `unit`, `unit` + `stride` …
  __device__ TileRing(const ProductArgs& args, uint8_t* memory, uint64_t* barriers, int unit,
                      int stride, int first, int end, int lane)
      : args_(args),
        memory_(memory),
        barriers_(barriers),
        stride_(stride),
        first_(first),
        end_(end),
        lane_(lane),
        unit_(first < end ? unit : args.units),
        tile_(first),
        matrix_bytes_(args.ring.tiles * kTileBytes) {
    if (lane < args.ring.stages) init_copy_barrier(barriers + lane);
    publish_copy_barriers();
#pragma unroll 1
    for (int i = 0; i < args.ring.stages; ++i) fetch();
  }

  // The next stage, once it has arrived: [matrix][tile].
  __device__ const uint8_t* wait() {
    wait_copy_barrier(barriers_ + read_, phase_);
    return memory_ + read_ * (kMatrices * matrix_bytes_);
  }
  // Nobody of the warp reads that stage any more: the next one on the way takes its place.
  __device__ void release() {
    if (++read_ == args_.ring.stages) {
      read_ = 0;
      phase_ ^= 1;
    }
    __syncwarp();
    fetch();
  }

 private:
  __device__ void fetch() {
    if (unit_ >= args_.units) return;
    const int count = min(args_.ring.tiles, end_ - tile_);
    const uint8_t* from[kMatrices];
    if constexpr (kMatrices == 1) {
      from[0] = unit_tiles(args_.parts[0]);
      if (args_.part_count > 1 && unit_ >= args_.parts[1].first_unit) {
        from[0] = unit_tiles(args_.parts[1]);
      }
      if (args_.part_count > 2 && unit_ >= args_.parts[2].first_unit) {
        from[0] = unit_tiles(args_.parts[2]);
      }
    } else {
      from[0] = unit_tiles(args_.parts[0]);
      from[1] = args_.parts[1].weights.tiles + (from[0] - args_.parts[0].weights.tiles);
    }
    copy_counted(memory_ + write_ * (kMatrices * matrix_bytes_), matrix_bytes_, from,
                 count * kTileBytes, barriers_ + write_, lane_);
    if (++write_ == args_.ring.stages) write_ = 0;
    tile_ += count;
    if (tile_ < end_) return;
    tile_ = first_;
    unit_ += stride_;
  }
  __device__ const uint8_t* unit_tiles(const ProductPart& part) const {
    return part.weights.tiles +
           (int64_t{unit_ - part.first_unit} * args_.depth + tile_) * kTileBytes;
  }

  const ProductArgs& args_;
  uint8_t* memory_;
  uint64_t* barriers_;
  const int stride_, first_, end_, lane_;
  int unit_, tile_, write_ = 0;  // of the next stage to fetch
  int read_ = 0, phase_ = 0;     // of the next stage to wait for
  const int matrix_bytes_;       // of one matrix in a stage
};

// ---- Products -----------------------------------------------------------------------------------

// Operand B of one tile of k for eight rows, from the address of this lane's row and piece: b[step]
// holds k low and high.
__device__ inline void load_operand(uint32_t at, uint32_t (&b)[4][2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint32_t r[4];
    load_matrices(r, at + half * 64);
    b[half * 2][0] = r[0];
    b[half * 2][1] = r[1];
    b[half * 2 + 1][0] = r[2];
    b[half * 2 + 1][1] = r[3];
  }
}

// The tiles of one stage, kTiles of each matrix as a rule, times the rows, added to c. The weights
// of a tile are on their way to registers while the tile before is decoded and multiplied.
template <WeightType kType, int kMatrices, int kEights>
class StageProduct {
 public:
  // rows: the address of this lane's row and piece for each eight rows, at the stage's first tile.
  // stage: [matrix][matrix_tiles].
  __device__ StageProduct(const uint8_t* stage, int matrix_tiles, const uint32_t (&rows)[kEights],
                          int lane)
      : stage_(stage),
        matrix_bytes_(matrix_tiles * int(tile_bytes(kType))),
        rows_(rows),
        lane_(lane) {}

  __device__ void add_to(float (&c)[kMatrices][kEights][4], int tiles) {
    constexpr int kTiles = kRingTiles / kMatrices;
    load(0, weights_[0]);
    if (tiles == kTiles) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        if (t + 1 < kTiles) load(t + 1, weights_[(t + 1) % 2]);
        multiply(t, weights_[t % 2], c);
      }
      return;
    }
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
      multiply(t, weights_[0], c);
      if (t + 1 < tiles) load(t + 1, weights_[0]);
    }
  }

 private:
  using Tile = WeightTile<kType>[kMatrices];

  __device__ void load(int tile, Tile& weights) {
#pragma unroll
    for (int m = 0; m < kMatrices; ++m) {
      weights[m].load(stage_ + m * matrix_bytes_ + tile * int(tile_bytes(kType)), lane_);
    }
  }
  __device__ void multiply(int tile, const Tile& weights, float (&c)[kMatrices][kEights][4]) {
    uint32_t b[kEights][4][2];
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
      load_operand(rows_[e] + uint32_t(tile) * (kTileDepth * 2), b[e]);
    }
    uint32_t a[kMatrices][4][4];
#pragma unroll
    for (int m = 0; m < kMatrices; ++m) weights[m].decode(a[m]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int m = 0; m < kMatrices; ++m) {
#pragma unroll
        for (int e = 0; e < kEights; ++e) mma_16x8x16(c[m][e], a[m][k], b[e][k][0], b[e][k][1]);
      }
    }
  }

  const uint8_t* stage_;
  const int matrix_bytes_;
  const uint32_t (&rows_)[kEights];
  const int lane_;
  Tile weights_[2];
};

// ---- Units --------------------------------------------------------------------------------------

// Where a thread of a block of `sets` sets stands.
struct NarrowThread {
  int sets;
  int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  int set = warp / kProductGroups, group = warp % kProductGroups;
  // The outputs that it ends: a pair of one row.
  int row = int(threadIdx.x) % kSetThreads / (kTileOutputs / 2);
  int pair = int(threadIdx.x) % (kTileOutputs / 2) * 2;

  __device__ explicit NarrowThread(int of_sets) : sets(of_sets) {}

  // Units of the set: the first one, and the way to the next.
  __device__ int first_unit() const { return int(blockIdx.x) + set * int(gridDim.x); }
  __device__ int stride() const { return sets * int(gridDim.x); }
};

// A warp's sums of its group to [row][output].
template <int kMatrices, int kEights>
__device__ inline void put_sums(const float (&c)[kMatrices][kEights][4], float* to, int rows,
                                int lane) {
  constexpr int kPitch = sum_pitch(kMatrices);
#pragma unroll
  for (int e = 0; e < kEights; ++e) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = e * 8 + lane % 4 * 2 + i;
      if (row >= rows) continue;
#pragma unroll
      for (int m = 0; m < kMatrices; ++m) {
        float* at = to + row * kPitch + m * kTileOutputs + lane / 4;
        at[0] = c[m][e][i];
        at[8] = c[m][e][i + 2];
      }
    }
  }
}

// Two neighbouring outputs of one row: the groups' sums, in order.
template <int kMatrices>
__device__ inline void add_groups(const float* from, int rows, float2 (&sum)[kMatrices]) {
#pragma unroll
  for (int g = 0; g < kProductGroups; ++g) {
#pragma unroll
    for (int m = 0; m < kMatrices; ++m) {
      const auto next = *reinterpret_cast<const float2*>(from + g * rows * sum_pitch(kMatrices) +
                                                         m * kTileOutputs);
      sum[m].x += next.x;
      sum[m].y += next.y;
    }
  }
}

// What does not change from unit to unit for a thread that ends outputs.
struct NarrowTarget {
  bool ends;        // only the first threads of a set do
  int64_t y_start;  // of the first part
  CachePlace place;

  __device__ NarrowTarget(const ProductArgs& args, const NarrowThread& thread)
      : ends(thread.row < args.rows),
        y_start(ends ? row_start(args.parts[0].y, thread.row) : 0),
        place(ends && args.end == ProductEnd::qkv ? place_of_row(args.cache, thread.row)
                                                  : CachePlace{}) {}

  __device__ ProductTarget of(const ProductArgs& args, const NarrowThread& thread, int part) const {
    const bool apart = part > 0 && args.end != ProductEnd::qkv;  // there k and v go to the cache
    return {args.parts[part], part, apart ? row_start(args.parts[part].y, thread.row) : y_start,
            place};
  }
};

// What the next norm wants of a pair that add has written, by all eight lanes of a row's unit.
__device__ inline void end_row_unit(const ProductArgs& args, const NarrowThread& thread, int unit,
                                    float2 y, float2 weights, HalfPairs& halves) {
  const int output = unit * kTileOutputs + thread.pair, outputs = args.parts[0].weights.outputs;
  if (output < outputs) put_next(args, thread.row, output, y, weights, halves);
  const float squares = unit_squares<8>(pair_squares(y.x, y.y), 0xffu << (thread.lane / 8 * 8));
  if (thread.pair != 0) return;
  args.next.squares[int64_t{thread.row} * square_pitch(outputs) + unit] = squares;
}

// The set's units, from rows (x) and rings in shared memory to their ends.
template <WeightType kType, int kEights, ProductEnd kEnd>
__device__ inline void run_units(const ProductArgs& args, const NarrowThread& thread,
                                 const NarrowTarget& to,
                                 TileRing<kType, narrow_matrices(kEnd)>& ring, const __half* x,
                                 int pitch, const float* factors, float* sums) {
  constexpr int kMatrices = narrow_matrices(kEnd);
  const int first = group_begin(thread.group, args.depth);
  const int end = group_begin(thread.group + 1, args.depth);
  const int stage_tiles = args.ring.tiles;
  const int rows = args.rows, units = args.units;
  uint32_t operand[kEights];
#pragma unroll
  for (int e = 0; e < kEights; ++e) {
    // Rows beyond the last one repeat it; nobody reads what they give.
    const int row = min(e * 8 + thread.lane % 8, rows - 1);
    operand[e] = shared_address(x + row * pitch + first * kTileDepth + thread.lane / 8 * 8);
  }
  HalfPairs halves;
#pragma unroll 1
  for (int unit = thread.first_unit(); unit < units; unit += thread.stride()) {
    int part = 0;
    if (kMatrices == 1) {
      if (args.part_count > 1 && unit >= args.parts[1].first_unit) part = 1;
      if (args.part_count > 2 && unit >= args.parts[2].first_unit) part = 2;
    }
    // All that the end needs is on its way before the products begin.
    ProductTarget target{};
    int output = 0;
    float2 beside = {}, weights = {};
    if (to.ends) {
      target = to.of(args, thread, part);
      output = (unit - target.part.first_unit) * kTileOutputs + thread.pair;
      if (kEnd == ProductEnd::add) beside = old_pair(target, output);
      if (kEnd == ProductEnd::add && args.next.squares && output < target.part.weights.outputs) {
        weights = next_weights(args, output);
      }
      if (kEnd == ProductEnd::qkv) beside = turn_of_pair(args, target, output);
    }

    // ---- This warp's group of k ----
    float c[kMatrices][kEights][4] = {};
    uint32_t at[kEights];
#pragma unroll
    for (int e = 0; e < kEights; ++e) at[e] = operand[e];
#pragma unroll 1
    for (int tile = first; tile < end; tile += stage_tiles) {
      StageProduct<kType, kMatrices, kEights> product(ring.wait(), stage_tiles, at, thread.lane);
      product.add_to(c, min(stage_tiles, end - tile));
      ring.release();
#pragma unroll
      for (int e = 0; e < kEights; ++e) at[e] += uint32_t(stage_tiles) * (kTileDepth * 2);
    }

    // ---- The groups' sums, in order ----
    if (unit != thread.first_unit()) sync_set(thread.set);  // the last unit's have been read
    put_sums(c, sums + thread.group * rows * sum_pitch(kMatrices), rows, thread.lane);
    sync_set(thread.set);
    if (!to.ends) continue;
    float2 y = {};
    if (output < target.part.weights.outputs) {
      float2 sum[kMatrices] = {};
      add_groups(sums + thread.row * sum_pitch(kMatrices) + thread.pair, rows, sum);
      y = end_product<kEnd>(args, target, output, factors[thread.row], sum[kMatrices - 1], sum[0],
                            beside, halves);
    }
    if (kEnd == ProductEnd::add && args.next.squares)
      end_row_unit(args, thread, unit, y, weights, halves);
  }
  halves.report(args.counters);
}

// ---- The kernel ---------------------------------------------------------------------------------

template <WeightType kType, int kEights, ProductEnd kEnd>
__global__ void __launch_bounds__(register_threads(kEights))
    narrow_kernel(const __grid_constant__ ProductArgs args) {
  constexpr int kMatrices = narrow_matrices(kEnd);
  extern __shared__ __align__(128) uint8_t memory[];
  __shared__ uint64_t barriers[kMostSets * kProductGroups][kRingStages];
  __shared__ float factors[kNarrowRows];
  const NarrowThread thread(int(blockDim.x) / kSetThreads);
  const int first = group_begin(thread.group, args.depth);
  const int end = group_begin(thread.group + 1, args.depth);
  const int pitch = args.depth * kTileDepth + kRowPad;
  auto* rows = reinterpret_cast<__half*>(memory + thread.sets * kProductGroups * args.ring_bytes);
  float* sums = reinterpret_cast<float*>(rows + args.rows * pitch) +
                thread.set * sum_floats(args.rows, kMatrices);

  // ---- What does not depend on the kernel ahead ----
  TileRing<kType, kMatrices> ring(args, memory + thread.warp * args.ring_bytes,
                                  barriers[thread.warp], thread.first_unit(), thread.stride(),
                                  first, end, thread.lane);
  const NarrowTarget target(args, thread);
  const RowShare share{first * kTileDepth, end * kTileDepth, thread.set, thread.sets, thread.lane};

  // ---- The rows ----
  wait_for_previous();
  release_next();
  stage_rows(args, share, pitch, rows);
  stage_factors(args, thread.warp, thread.sets * kProductGroups, thread.lane, factors);
  wait_all_copies();
  thread.sets > 1 ? __syncthreads() : __syncwarp();  // one set: a warp reads its own columns alone
  run_units<kType, kEights, kEnd>(args, thread, target, ring, rows, pitch, factors, sums);
}

}  // namespace tinyloop::kernels
