// Products for up to 16 rows: bound by the stream of weights, and by how soon a block is done.
//
// Eight warps share 16 outputs, each with one group of k; so 128 outputs keep 128 blocks busy. A
// warp streams its tiles through a ring of its own in shared memory, over all the units of work
// that its block will do. The ring fills before the rows are ready: weights do not depend on the
// kernel ahead.
#pragma once

#include <algorithm>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/product_end.cuh"
#include "kernels/cuda/row_norm.cuh"

namespace tinyloop::kernels {

inline constexpr int kNarrowWarps = kProductGroups;
inline constexpr int kNarrowThreads = kNarrowWarps * kWarp;
inline constexpr int kRowPad = 8;       // halves: rows of x start in different banks
inline constexpr int kMostStages = 4;   // of a ring
inline constexpr int kTilesAtOnce = 4;  // decoded side by side

constexpr int narrow_matrices(ProductEnd end) {
  return end == ProductEnd::swiglu ? 2 : 1;
}
// The groups' sums: [group][row][output], padded.
constexpr int sum_pitch(int matrices) {
  return matrices * kTileOutputs + 2;
}
constexpr int sum_floats(int tokens, int matrices) {
  return kNarrowWarps * tokens * sum_pitch(matrices);
}

// Shared memory of a block: the rings, the rows, the sums twice.
struct NarrowShape {
  RingShape ring;
  size_t ring_bytes;  // of a warp
  size_t row_bytes;
  size_t bytes;
};

inline NarrowShape narrow_shape(WeightType type, ProductEnd end, int tokens, int rows, int depth) {
  constexpr size_t kRingBytes = 9216;
  const int matrices = narrow_matrices(end);
  const int group = (depth + kProductGroups - 1) / kProductGroups;
  const size_t tile = tile_bytes(type) * size_t(matrices);
  NarrowShape shape{};
  const int fit = int(kRingBytes / tile);  // tiles
  if (group <= fit) {
    shape.ring = {std::max(group, 1), std::clamp(fit / std::max(group, 1), 1, kMostStages)};
  } else {
    shape.ring = {std::max(fit / 2, 1), 2};
  }
  shape.ring_bytes = size_t(shape.ring.stages * shape.ring.tiles) * tile;
  shape.row_bytes = size_t(rows) * size_t(depth * kTileDepth + kRowPad) * 2;
  shape.bytes = kNarrowWarps * shape.ring_bytes + shape.row_bytes +
                2 * size_t(sum_floats(tokens, matrices)) * sizeof(float);
  return shape;
}

// ---- Weights ------------------------------------------------------------------------------------

// Brings the tiles of this warp's group, unit after unit, into the ring. Its state is the same in
// all lanes.
template <WeightType kType, int kMatrices>
class TileRing {
 public:
  static constexpr int kTileBytes = int(tile_bytes(kType));

  __device__ TileRing(const ProductArgs& args, uint8_t* memory, uint64_t* barriers, int first,
                      int end, int lane)
      : args_(args),
        memory_(memory),
        barriers_(barriers),
        first_(first),
        end_(end),
        lane_(lane),
        unit_(first < end ? int(blockIdx.x) : args.units),
        tile_(first),
        matrix_bytes_(args.ring.tiles * kTileBytes) {
    if (lane == 0) {
      for (int i = 0; i < args.ring.stages; ++i) init_copy_barrier(barriers + i);
    }
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
  __device__ int bytes_of_matrix() const {
    return matrix_bytes_;
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
    unit_ += int(gridDim.x);
  }
  __device__ const uint8_t* unit_tiles(const ProductPart& part) const {
    return part.weights.tiles +
           (int64_t{unit_ - part.first_unit} * args_.depth + tile_) * kTileBytes;
  }

  const ProductArgs& args_;
  uint8_t* memory_;
  uint64_t* barriers_;
  const int first_, end_, lane_;
  int unit_, tile_, write_ = 0;  // of the next stage to fetch
  int read_ = 0, phase_ = 0;     // of the next stage to wait for
  const int matrix_bytes_;       // of one matrix in a stage
};

// ---- Rows ---------------------------------------------------------------------------------------

// Columns [first, end) of every row → shared.
__device__ inline void stage_rows(const ProductArgs& args, int first, int end, int pitch,
                                  __half* shared, int lane) {
#pragma unroll 1
  for (int n = 0; n < args.rows; ++n) {
    const auto* from = static_cast<const __half*>(args.x.data) + row_start(args.x, n);
#pragma unroll 4
    for (int col = first + lane * 8; col < end; col += kWarp * 8) {
      const bool valid = col < args.cols;
      copy_16(shared_address(shared + n * pitch + col), valid ? from + col : from, valid);
    }
  }
  wait_all_copies();
}

// The same of one f32 row, normed. All warps together: the row's scale needs all its groups.
__device__ inline void stage_normed_row(const ProductArgs& args, int first, int end, __half* shared,
                                        float* group_sums, const float4* weight, int warp,
                                        int lane) {
  const float* from = static_cast<const float*>(args.x.data) + row_start(args.x, 0);
  const int begin = first + lane * 4;
  float4 kept[kNormedQuads];
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kNormedQuads; ++i) {
    const int c = begin + i * kNormStride;
    kept[i] =
        c < min(end, args.cols) ? __ldcg(reinterpret_cast<const float4*>(from + c)) : float4{};
  }
#pragma unroll
  for (int i = 0; i < kNormedQuads; ++i) {
    if (first + i * kNormStride < end) sum = add_squares(sum, kept[i]);
  }
  sum = warp_sum(sum);
  if (lane == 0) group_sums[warp] = sum;
  __syncthreads();
  const float scale = norm_scale(group_sums, args.cols, args.eps);
  HalfPairs halves;
#pragma unroll
  for (int i = 0; i < kNormedQuads; ++i) {
    if (first + i * kNormStride >= end) break;
    const int c = begin + i * kNormStride;
    const float4 y = normed(kept[i], scale, weight[i]);
    if (c < end) *reinterpret_cast<uint2*>(shared + c) = {halves(y.x, y.y), halves(y.z, y.w)};
  }
  halves.report(args.counters);
}

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

// ---- The kernel ---------------------------------------------------------------------------------

template <WeightType kType, int kEights, ProductEnd kEnd>
__global__ void __launch_bounds__(kNarrowThreads, 2)
    narrow_kernel(const __grid_constant__ ProductArgs args) {
  constexpr int kTokens = kEights * 8, kMatrices = narrow_matrices(kEnd);
  constexpr int kPitch = sum_pitch(kMatrices), kPairs = kTileOutputs / 2;
  using Ring = TileRing<kType, kMatrices>;
  extern __shared__ __align__(128) uint8_t memory[];
  __shared__ uint64_t barriers[kNarrowWarps][kMostStages];
  __shared__ float group_sums[kProductGroups];
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  const int first = group_begin(warp, args.depth), end = group_begin(warp + 1, args.depth);
  const int pitch = args.depth * kTileDepth + kRowPad;
  auto* rows = reinterpret_cast<__half*>(memory + kNarrowWarps * args.ring_bytes);
  auto* sums = reinterpret_cast<float*>(rows + args.rows * pitch);

  // ---- What does not depend on the kernel ahead ----
  Ring ring(args, memory + warp * args.ring_bytes, barriers[warp], first, end, lane);
  float4 norm_weight[kNormedQuads];
  if (args.norm_weight) {
#pragma unroll
    for (int i = 0; i < kNormedQuads; ++i) {
      const int c = first * kTileDepth + lane * 4 + i * kNormStride;
      norm_weight[i] =
          c < args.cols ? __ldg(reinterpret_cast<const float4*>(args.norm_weight + c)) : float4{};
    }
  }

  // ---- The rows, and where this thread's outputs go ----
  wait_for_previous();
  release_next();
  const int token = int(threadIdx.x) / kPairs, pair = int(threadIdx.x) % kPairs * 2;
  const bool ends = token < args.rows;  // only the first threads do
  const int64_t y_start = ends ? row_start(args.parts[0].y, token) : 0;
  CachePlace place = {};
  if (kEnd == ProductEnd::qkv && ends) place = place_of_row(args.cache, token);
  if (args.norm_weight) {
    stage_normed_row(args, first * kTileDepth, end * kTileDepth, rows, group_sums, norm_weight,
                     warp, lane);
  } else {
    stage_rows(args, first * kTileDepth, end * kTileDepth, pitch, rows, lane);
  }
  __syncwarp();  // a warp reads its own columns alone
  uint32_t operand[kEights];
#pragma unroll
  for (int e = 0; e < kEights; ++e) {
    // Rows beyond the last one repeat it; nobody reads what they give.
    const int row = min(e * 8 + lane % 8, args.rows - 1);
    operand[e] = shared_address(rows + row * pitch + lane / 8 * 8);
  }

  HalfPairs halves;
#pragma unroll 1
  for (int unit = int(blockIdx.x), turn = 0; unit < args.units; unit += int(gridDim.x), turn ^= 1) {
    int part = 0;
    if (kEnd == ProductEnd::qkv || kEnd == ProductEnd::store) {
      if (args.part_count > 1 && unit >= args.parts[1].first_unit) part = 1;
      if (args.part_count > 2 && unit >= args.parts[2].first_unit) part = 2;
    }
    const ProductPart& done = args.parts[part];
    const int output = (unit - done.first_unit) * kTileOutputs + pair;
    const ProductTarget target{done, part, part > 0 && ends ? row_start(done.y, token) : y_start,
                               place};
    float2 old = {};
    if (kEnd == ProductEnd::add && ends) old = old_pair(target, output);

    // ---- This warp's group of k ----
    float c[kMatrices][kEights][4] = {};
#pragma unroll 1
    for (int tile = first; tile < end; tile += args.ring.tiles) {
      const uint8_t* stage = ring.wait();
      const int count = min(args.ring.tiles, end - tile);
      const auto multiply = [&](int t) {
        uint32_t a[kMatrices][4][4];
#pragma unroll
        for (int m = 0; m < kMatrices; ++m) {
          WeightTile<kType> weights;
          weights.template load<FromShared>(
              stage + m * ring.bytes_of_matrix() + t * Ring::kTileBytes, lane);
          weights.decode(a[m]);
        }
#pragma unroll
        for (int e = 0; e < kEights; ++e) {
          uint32_t b[4][2];
          load_operand(operand[e] + uint32_t(tile + t) * (kTileDepth * 2), b);
#pragma unroll
          for (int k = 0; k < 4; ++k) {
#pragma unroll
            for (int m = 0; m < kMatrices; ++m) {
              mma_16x8x16(c[m][e], a[m][k], b[k][0], b[k][1]);
            }
          }
        }
      };
      int t = 0;
#pragma unroll 1
      for (; t + kTilesAtOnce <= count; t += kTilesAtOnce) {
#pragma unroll
        for (int i = 0; i < kTilesAtOnce; ++i) multiply(t + i);
      }
#pragma unroll 1
      for (; t < count; ++t) multiply(t);
      ring.release();
    }

    // ---- The groups' sums, in order ----
    float* shared = sums + turn * sum_floats(kTokens, kMatrices);
    float* mine = shared + (warp * kTokens + lane % 4 * 2) * kPitch + lane / 4;
#pragma unroll
    for (int m = 0; m < kMatrices; ++m) {
#pragma unroll
      for (int e = 0; e < kEights; ++e) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          mine[(e * 8 + i % 2) * kPitch + m * kTileOutputs + i / 2 * 8] = c[m][e][i];
        }
      }
    }
    __syncthreads();
    if (!ends || output >= done.weights.outputs) continue;
    float2 sum[kMatrices] = {};
#pragma unroll
    for (int w = 0; w < kNarrowWarps; ++w) {
#pragma unroll
      for (int m = 0; m < kMatrices; ++m) {
        const auto next = *reinterpret_cast<const float2*>(shared + (w * kTokens + token) * kPitch +
                                                           m * kTileOutputs + pair);
        sum[m].x += next.x;
        sum[m].y += next.y;
      }
    }
    end_product<kEnd>(args, target, output, sum[kMatrices - 1], sum[0], old, halves);
  }
  halves.report(args.counters);
}

}  // namespace tinyloop::kernels
