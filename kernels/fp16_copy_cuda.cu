#include "base/check.h"
#include "kernels/cuda/device_tools.cuh"
#include "kernels/cuda/weight_tile.cuh"
#include "kernels/fp16_copy.h"

namespace tinyloop::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

struct Fp16CopyParams {
  TiledMatrix weights;
  uint32_t* copy;  // pairs of numbers
  int32_t depth;   // tiles of a row
  int32_t unused;
};

// A warp takes a tile: decoded as for a product, each pair of numbers goes to its place. This runs
// once a matrix, when a model is loaded.
template <WeightType kType>
__global__ void __launch_bounds__(kThreads) fp16_copy_kernel(const Fp16CopyParams args) {
  wait_for_previous();
  release_next();
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  const int64_t tile = int64_t{blockIdx.x} * kWarps + warp;
  if (tile >= int64_t{args.weights.row_tiles} * args.depth) return;
  WeightTile<kType> weights;
  weights.load(args.weights.tiles + tile * int64_t(tile_bytes(kType)), lane);
  uint32_t pairs[4][4];
  weights.decode(pairs);
  // As kernels/weight_tiles.h places them: pair q holds output lane / 4 + 8 · (q % 2).
  const auto row = int(tile / args.depth) * kTileOutputs + lane / 4;
  const auto col = int(tile % args.depth) * kTileDepth + lane % 4 * 2;
  const int64_t pitch = int64_t{args.depth} * kTileDepth;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int output = row + q % 2 * 8, k = col + step * 16 + q / 2 * 8;
      if (output < args.weights.outputs) args.copy[(output * pitch + k) / 2] = pairs[step][q];
    }
  }
}

}  // namespace

void fp16_copy_cuda(CudaContext& cuda, const Fp16CopyArgs& args) {
  TINYLOOP_CHECK(args.weights.layout == WeightLayout::tiles);
  auto params = argument_of<Fp16CopyParams>();
  params.weights = tiled_matrix(args.weights);
  params.copy = reinterpret_cast<uint32_t*>(args.copy);
  params.depth = depth_tiles(args.weights.cols);
  const int64_t tiles = int64_t{params.weights.row_tiles} * params.depth;
  const LaunchShape shape{unsigned((tiles + kWarps - 1) / kWarps), kThreads};
  with_tile_type(args.weights.type, [&](auto type) {
    cuda.launch(fp16_copy_kernel<decltype(type)::value>, shape, params);
  });
}

}  // namespace tinyloop::kernels
