#include <algorithm>

#include "kernels/cuda/device_tools.cuh"
#include "kernels/most_likely.h"

namespace tinyloop::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int kPartLogits = 4096;  // of one block

struct MostLikelyParams {
  const float* logits;
  int32_t* tokens;
  unsigned long long* best;  // [rows][parts]
  uint32_t* arrivals;        // [rows]
  int64_t vocab;
};

// Ordered as the choice is: by value, then by smaller id. Unusable rows come out on top.
constexpr unsigned long long kUnusable = ~0ull;

__device__ unsigned long long rank_of(float value, int id) {
  if (!(value < INFINITY)) return kUnusable;  // NaN, too
  if (value == -INFINITY) return 0;
  const uint32_t bits = __float_as_uint(value + 0.0f);  // 0 and -0 are one
  const uint32_t key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (static_cast<unsigned long long>(key) << 32) | (0xffffffffu - uint32_t(id));
}

__device__ int32_t token_of(unsigned long long rank) {
  return rank == 0 || rank == kUnusable ? kNoToken : int32_t(0xffffffffu - uint32_t(rank));
}

// The greatest of the block's ranks, in thread 0.
__device__ unsigned long long block_max(unsigned long long rank) {
  __shared__ unsigned long long warps[kThreads / kWarp];
  for (int step = kWarp / 2; step > 0; step /= 2) {
    rank = max(rank, __shfl_xor_sync(~0u, rank, step));
  }
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = rank;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < kThreads / kWarp; ++w) rank = max(rank, warps[w]);
  }
  return rank;
}

// Each block looks through a part of a row; the last of a row to arrive compares the parts.
__global__ void __launch_bounds__(kThreads) most_likely_kernel(const MostLikelyParams args) {
  wait_for_previous();
  release_next();
  const int64_t row = blockIdx.y;
  const int64_t first = int64_t{blockIdx.x} * kPartLogits;
  const int64_t end = min(first + kPartLogits, args.vocab);
  unsigned long long best = 0;
  for (int64_t i = first + threadIdx.x; i < end; i += kThreads) {
    best = max(best, rank_of(__ldcg(args.logits + row * args.vocab + i), int(i)));
  }
  best = block_max(best);
  if (threadIdx.x != 0) return;
  __stcg(args.best + row * gridDim.x + blockIdx.x, best);
  __threadfence();
  if (atomicAdd(args.arrivals + row, 1u) != gridDim.x - 1) return;
  args.arrivals[row] = 0;
  __threadfence();
  for (unsigned part = 0; part < gridDim.x; ++part) {
    best = max(best, __ldcg(args.best + row * gridDim.x + part));
  }
  args.tokens[row] = token_of(best);
}

}  // namespace

void most_likely_cuda(CudaContext& cuda, const MostLikelyArgs& args) {
  if (args.rows == 0) return;
  const auto parts = unsigned((args.vocab + kPartLogits - 1) / kPartLogits);
  auto params = argument_of<MostLikelyParams>();
  params.logits = args.logits;
  params.tokens = args.tokens;
  params.best = reinterpret_cast<unsigned long long*>(
      cuda.workspace(size_t(args.rows) * parts * sizeof(unsigned long long)));
  params.arrivals = cuda.arrivals(size_t(args.rows));
  params.vocab = args.vocab;
  cuda.launch(most_likely_kernel, {{parts, unsigned(args.rows)}, kThreads}, params);
}

}  // namespace tinyloop::kernels
