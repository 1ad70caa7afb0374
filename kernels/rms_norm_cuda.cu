#include "base/check.h"
#include "kernels/cuda/row_norm.cuh"
#include "kernels/rms_norm.h"

namespace tinyloop::kernels {

namespace {

constexpr int kThreads = kProductGroups * kWarp;

struct RmsNormParams {
  DeviceRows x, y;
  const float* weight;
  DeviceCounters* counters;
  int32_t groups;
  int32_t cols;
  int32_t aligned;  // vectors begin at multiples of 16 bytes
  float eps;
};

// A block normalises one vector, each warp a group of its columns.
__global__ void __launch_bounds__(kThreads) rms_norm_kernel(const RmsNormParams args) {
  __shared__ float sums[kProductGroups];
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  const int depth = (args.cols + kTileDepth - 1) / kTileDepth;
  const int first = group_begin(warp, depth) * kTileDepth + lane * 4;
  const int end = min(group_begin(warp + 1, depth) * kTileDepth, args.cols);
  wait_for_previous();
  release_next();
  const int row = int(blockIdx.x) / args.groups, group = int(blockIdx.x) % args.groups;
  const int64_t from = row_start(args.x, row) + int64_t{group} * args.cols;
  const int64_t to = row_start(args.y, row) + int64_t{group} * args.cols;

  float4 kept[kNormedQuads];
#pragma unroll
  for (int i = 0; i < kNormedQuads; ++i) {
    const int c = first + i * kNormStride;
    kept[i] = c < end ? load_four(args.x, from, c, args.cols, args.aligned) : float4{};
  }
  float sum = squares_of(kept, first, end);
  for (int c = first + kNormedQuads * kNormStride; c < end; c += kNormStride) {
    sum = add_squares(sum, load_four(args.x, from, c, args.cols, args.aligned));
  }
  sum = warp_sum(sum);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  const float scale = norm_scale(sums, inverse_of(args.cols), args.eps);
  HalfPairs halves;
  const auto put = [&](int c, float4 v) {
    if (args.aligned && args.y.is_half && (to + c) % 4 == 0) {
      const float4 y = normed(v, scale, __ldg(reinterpret_cast<const float4*>(args.weight + c)));
      *reinterpret_cast<uint2*>(static_cast<__half*>(args.y.data) + to + c) = {halves(y.x, y.y),
                                                                               halves(y.z, y.w)};
      return;
    }
    const float values[4] = {v.x, v.y, v.z, v.w};
    for (int i = 0; i < 4 && c + i < args.cols; ++i) {
      const float y = __fmul_rn(__fmul_rn(values[i], scale), __ldg(args.weight + c + i));
      store_element(args.y, to + c + i, y, args.counters);
    }
  };
#pragma unroll
  for (int i = 0; i < kNormedQuads; ++i) {
    if (first + i * kNormStride < end) put(first + i * kNormStride, kept[i]);
  }
  for (int c = first + kNormedQuads * kNormStride; c < end; c += kNormStride) {
    put(c, load_four(args.x, from, c, args.cols, args.aligned));
  }
  halves.report(args.counters);
}

struct PrepareParams {
  DeviceRows x, y;
  const float* weight;
  float* squares;
  DeviceCounters* counters;
  int32_t cols;
  int32_t aligned;  // vectors begin at multiples of 16 bytes
};

// A block prepares one row.
__global__ void __launch_bounds__(kThreads) prepare_norm_kernel(const PrepareParams args) {
  const int row = int(blockIdx.x), units = square_units(args.cols);
  const int64_t from = row_start(args.x, row), to = row_start(args.y, row);
  float* squares = args.squares + int64_t{row} * square_pitch(args.cols);
  wait_for_previous();
  release_next();
  HalfPairs halves;
  for (int first = 0; first < units * kTileOutputs; first += kThreads * 4) {
    const int c = first + int(threadIdx.x) * 4;
    const float4 v = load_four(args.x, from, c, args.cols, args.aligned);
    put_prepared(args.y, to, c, args.cols, args.aligned, v, args.weight, halves);
    const float sum = unit_squares<4>(pair_squares(v.x, v.y) + pair_squares(v.z, v.w), ~0u);
    if (c % kTileOutputs == 0 && c < args.cols) squares[c / kTileOutputs] = sum;
  }
  halves.report(args.counters);
}

}  // namespace

void rms_norm_cuda(CudaContext& cuda, const RmsNormArgs& args) {
  TINYLOOP_CHECK(args.x.type != ScalarType::q8 && args.y.type != ScalarType::q8);
  if (args.rows == 0) return;
  auto params = argument_of<RmsNormParams>();
  params.x = device_rows(args.x);
  params.y = device_rows(args.y);
  params.weight = args.weight;
  params.counters = cuda.counters();
  params.groups = args.groups;
  params.cols = args.cols;
  const bool y_aligned = reinterpret_cast<uintptr_t>(args.y.data) % 8 == 0;
  params.aligned = is_aligned_f32(args.x) && args.cols % 4 == 0 && y_aligned ? 1 : 0;
  params.eps = args.eps;
  cuda.launch(rms_norm_kernel, {unsigned(args.rows) * unsigned(args.groups), kThreads}, params);
}

void prepare_norm_cuda(CudaContext& cuda, const RmsNormArgs& args) {
  TINYLOOP_CHECK(args.groups == 1 && args.x.type == ScalarType::f32);
  TINYLOOP_CHECK(args.y.type == ScalarType::f16 && !args.y.index);
  if (args.rows == 0) return;
  auto params = argument_of<PrepareParams>();
  params.x = device_rows(args.x);
  params.y = device_rows(args.y);
  params.weight = args.weight;
  params.squares = cuda.row_squares(size_t(args.rows) * size_t(square_pitch(args.cols)));
  params.counters = cuda.counters();
  params.cols = args.cols;
  params.aligned = is_aligned_f32(args.x) && args.cols % 4 == 0 && args.y.stride % 4 == 0 &&
                           reinterpret_cast<uintptr_t>(args.y.data) % 8 == 0 &&
                           reinterpret_cast<uintptr_t>(args.weight) % 16 == 0
                       ? 1
                       : 0;
  cuda.launch(prepare_norm_kernel, {unsigned(args.rows), kThreads}, params);
}

}  // namespace tinyloop::kernels
