#include "base/check.h"
#include "kernels/cuda/device_tools.cuh"
#include "kernels/cuda/weight_tile.cuh"
#include "kernels/embed.h"

namespace tinyloop::kernels {

namespace {

constexpr int kThreads = 256;

struct EmbedParams {
  TiledMatrix table;
  DeviceRows y;
  const int32_t* tokens;
  DeviceCounters* counters;
  int32_t depth;
  int32_t cols;
  float scale;
  int32_t unused;
};

// Number (output, k) of a tile, with its scale in FP32: the value as the file states it.
template <WeightType kType>
__device__ float tile_value(const TiledMatrix& m, int64_t tile, int output, int k) {
  const TilePlace place = tile_place(output, k);
  const uint8_t* at = m.tiles + tile * int64_t(tile_bytes(kType));
  if constexpr (kType == WeightType::f16) {
    return __half2float(reinterpret_cast<const __half*>(at)[place.lane * 32 + place.index()]);
  } else {
    constexpr int kScales = kType == WeightType::q4_1 ? 8 : 4;  // of one g
    const auto* scales = reinterpret_cast<const __half*>(at + tile_code_bytes(kType)) +
                         output % 8 * kScales + output / 8 * 2 + k / 32;
    const float d = __half2float(scales[0]);
    if constexpr (kType == WeightType::q8_0) {
      return d * float(int(at[place.lane * 32 + place.index()]) - 128);
    } else {
      const auto* dwords = reinterpret_cast<const uint32_t*>(at);
      const auto code =
          float(dwords[place.lane * 4 + place.step] >> (4 * place.pair + 16 * place.number) & 15);
      return kType == WeightType::q4_0 ? d * (code - 8.0f) : d * code + __half2float(scales[4]);
    }
  }
}

template <WeightType kType>
__global__ void embed_kernel(const EmbedParams args) {
  wait_for_previous();
  release_next();
  const int row = int(blockIdx.x), token = __ldcg(args.tokens + row);
  const int64_t to = row_start(args.y, row);
  const int64_t first_tile = int64_t{token / kTileOutputs} * args.depth;
  for (int k = int(threadIdx.x); k < args.cols; k += kThreads) {
    const float value = tile_value<kType>(args.table, first_tile + k / kTileDepth,
                                          token % kTileOutputs, k % kTileDepth);
    store_element(args.y, to + k, args.scale * value, args.counters);
  }
}

}  // namespace

void embed_cuda(CudaContext& cuda, const EmbedArgs& args) {
  TINYLOOP_CHECK(args.table.layout == WeightLayout::tiles);
  if (args.rows == 0) return;
  auto params = argument_of<EmbedParams>();
  params.table = tiled_matrix(args.table);
  params.y = device_rows(args.y);
  params.tokens = args.tokens;
  params.counters = cuda.counters();
  params.depth = depth_tiles(args.table.cols);
  params.cols = args.table.cols;
  params.scale = args.scale;
  const LaunchShape shape{unsigned(args.rows), kThreads};
  with_tile_type(args.table.type, [&](auto type) {
    cuda.launch(embed_kernel<decltype(type)::value>, shape, params);
  });
}

}  // namespace tinyloop::kernels
