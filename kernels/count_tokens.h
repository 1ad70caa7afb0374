// How often each token of the vocabulary stands in a text: what penalties go by.
#pragma once

#include <cstdint>

#include "kernels/sampling_math.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

// counts[t] = how often t is among the output's tokens, and kInPrompt where the prompt has it.
struct CountTokensArgs {
  uint32_t* counts = nullptr;  // [vocab], contents undefined before
  int32_t vocab = 0;
  const int32_t* tokens = nullptr;  // [total], each in [0, vocab): the prompt, then the output
  int32_t prompt = 0;
  int32_t total = 0;
};

// On the host.
void count_row(const CountTokensArgs& args);

void count_tokens_cpu(CpuContext& cpu, const CountTokensArgs& args);
void count_tokens_cuda(CudaContext& cuda, const CountTokensArgs& args);

}  // namespace tinyloop::kernels
