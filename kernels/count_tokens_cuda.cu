#include "kernels/count_tokens.h"
#include "kernels/cuda/device_tools.cuh"

namespace tinyloop::kernels {

namespace {

constexpr int kThreads = 1024;

struct CountTokensParams {
  uint32_t* counts;
  const int32_t* tokens;
  int32_t vocab, prompt, total;
  int32_t unused;
};

// One block: it comes before a request's first token alone, and has to end one thing before it
// begins another.
__global__ void __launch_bounds__(kThreads) count_tokens_kernel(const CountTokensParams args) {
  wait_for_previous();
  release_next();
  for (int t = int(threadIdx.x); t < args.vocab; t += kThreads) args.counts[t] = 0;
  __syncthreads();
  for (int i = int(threadIdx.x); i < args.total; i += kThreads) {
    uint32_t* count = args.counts + __ldcg(args.tokens + i);
    if (i < args.prompt) {
      atomicOr(count, kInPrompt);
    } else {
      atomicAdd(count, 1u);
    }
  }
}

}  // namespace

void count_tokens_cuda(CudaContext& cuda, const CountTokensArgs& args) {
  cuda.launch(count_tokens_kernel, {1, kThreads},
              CountTokensParams{args.counts, args.tokens, args.vocab, args.prompt, args.total, 0});
}

}  // namespace tinyloop::kernels
