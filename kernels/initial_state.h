// The state before the first loop iteration, for models whose loop does not start from the
// prelude's output: zeros, or normal values drawn by Philox from a constant, the absolute position
// and the dimension. Never from a request's seed, so that cached states are valid for every
// request. Value pair (2j, 2j + 1) of position p: std · normal_pair(philox(kInitialStateKey,
// initial_state, p, j)).
#pragma once

#include "kernels/row_view.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

inline constexpr uint64_t kInitialStateKey = 0x74696e796c6f6f70;  // "tinyloop"

struct InitialStateArgs {
  float std = 0.0f;                    // 0: zeros
  const int32_t* positions = nullptr;  // [rows]
  RowView y;                           // [rows, cols] f32
  int32_t rows = 0;
  int32_t cols = 0;
};

void initial_state_cpu(CpuContext& cpu, const InitialStateArgs& args);
void initial_state_cuda(CudaContext& cuda, const InitialStateArgs& args);

}  // namespace tinyloop::kernels
