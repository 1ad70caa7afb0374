#include "base/check.h"
#include "kernels/cuda/row_norm.cuh"
#include "kernels/normed_add.h"

namespace tinyloop::kernels {

namespace {

constexpr int kThreads = kProductGroups * kWarp;

struct NormedAddParams {
  DeviceRows x, y;
  const float* weight;
  DeviceCounters* counters;
  DeviceRows next_rows;
  const float* next_weight;  // null: no norm is prepared
  float* next_squares;
  int32_t cols;
  int32_t rounded;       // to FP16 ahead of the sum
  int32_t aligned;       // vectors of y begin at multiples of 16 bytes
  int32_t next_aligned;  // those of the prepared rows, of 8
  float eps;
  int32_t unused;
};

// The factor of the block's row: as that of rms_norm, each warp a group of columns.
__device__ inline float factor_of_row(const NormedAddParams& args, int64_t from, float* sums) {
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  const int depth = (args.cols + kTileDepth - 1) / kTileDepth;
  const int end = min(group_begin(warp + 1, depth) * kTileDepth, args.cols);
  float sum = 0.0f;
  for (int c = group_begin(warp, depth) * kTileDepth + lane * 4; c < end; c += kNormStride) {
    sum = add_squares(sum, load_four(args.x, from, c, args.cols, false));
  }
  sum = warp_sum(sum);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  return norm_scale(sums, inverse_of(args.cols), args.eps);
}

// A block takes one row.
__global__ void __launch_bounds__(kThreads) normed_add_kernel(const NormedAddParams args) {
  __shared__ float sums[kProductGroups];
  const int row = int(blockIdx.x), units = square_units(args.cols);
  const int64_t from = row_start(args.x, row), to = row_start(args.y, row);
  float* y_row = static_cast<float*>(args.y.data) + to;
  wait_for_previous();
  release_next();
  const float factor = factor_of_row(args, from, sums);
  HalfPairs halves;
  for (int first = 0; first < units * kTileOutputs; first += kThreads * 4) {
    const int c = first + int(threadIdx.x) * 4;
    const float4 x = load_four(args.x, from, c, args.cols, false);
    const float4 old = load_four(args.y, to, c, args.cols, args.aligned);
    const float branch[4] = {x.x, x.y, x.z, x.w};
    float v[4] = {old.x, old.y, old.z, old.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (c + i >= args.cols) continue;
      float normal = __fmul_rn(__fmul_rn(branch[i], factor), __ldg(args.weight + c + i));
      if (args.rounded) normal = __half2float(to_half_saturated(normal, args.counters));
      v[i] += normal;
      y_row[c + i] = v[i];
    }
    if (!args.next_weight) continue;
    put_prepared(args.next_rows, int64_t{row} * args.next_rows.stride, c, args.cols,
                 args.next_aligned, {v[0], v[1], v[2], v[3]}, args.next_weight, halves);
    const float sum = unit_squares<4>(pair_squares(v[0], v[1]) + pair_squares(v[2], v[3]), ~0u);
    if (c % kTileOutputs == 0 && c < args.cols) {
      args.next_squares[int64_t{row} * square_pitch(args.cols) + c / kTileOutputs] = sum;
    }
  }
  halves.report(args.counters);
}

}  // namespace

bool normed_add_cuda(CudaContext& cuda, const NormedAddArgs& args, const RmsNormArgs* next) {
  const RmsNormArgs& norm = args.norm;
  TINYLOOP_CHECK(norm.groups == 1 && args.y.type == ScalarType::f32);
  TINYLOOP_CHECK(norm.x.type != ScalarType::q8 && norm.y.type != ScalarType::q8);
  if (next && !is_foldable(*next)) next = nullptr;
  if (norm.rows == 0) return false;
  auto params = argument_of<NormedAddParams>();
  params.x = device_rows(norm.x);
  params.y = device_rows(args.y);
  params.weight = norm.weight;
  params.counters = cuda.counters();
  params.cols = norm.cols;
  params.rounded = norm.y.type == ScalarType::f16 ? 1 : 0;
  params.aligned = is_aligned_f32(args.y) && norm.cols % 4 == 0 ? 1 : 0;
  params.eps = norm.eps;
  if (next) {
    params.next_rows = device_rows(next->y);
    params.next_weight = next->weight;
    params.next_squares = cuda.row_squares(size_t(next->rows) * size_t(square_pitch(next->cols)));
    params.next_aligned = norm.cols % 4 == 0 && next->y.stride % 4 == 0 &&
                                  reinterpret_cast<uintptr_t>(next->y.data) % 8 == 0 &&
                                  reinterpret_cast<uintptr_t>(next->weight) % 16 == 0
                              ? 1
                              : 0;
  }
  cuda.launch(normed_add_kernel, {unsigned(norm.rows), kThreads}, params);
  return next != nullptr;
}

}  // namespace tinyloop::kernels
