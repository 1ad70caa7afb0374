// The most likely token of each row of logits: the greatest value, the smallest id among equals.
#pragma once

#include <cstdint>
#include <span>

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

// Where a row has a NaN or +inf, or all of it is -inf, so that no choice has a meaning.
inline constexpr int32_t kNoToken = -1;

struct MostLikelyArgs {
  const float* logits = nullptr;  // [rows, vocab], dense
  int32_t rows = 0;
  int32_t vocab = 0;
  int32_t* tokens = nullptr;  // [rows]; memory that the host reads, too (DeviceMemory::share)
};

// One row on the host.
int32_t most_likely_token(std::span<const float> logits);

void most_likely_cpu(CpuContext& cpu, const MostLikelyArgs& args);
void most_likely_cuda(CudaContext& cuda, const MostLikelyArgs& args);

}  // namespace tinyloop::kernels
