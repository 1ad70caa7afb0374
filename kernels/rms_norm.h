// Root-mean-square norm over `groups` vectors of `cols` elements in each row:
// y = x / sqrt(mean(x²) + eps) · w. Source: Zhang and Sennrich, 2019.
#pragma once

#include "kernels/row_view.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

// `x` and `y` may be the same rows. One row's sum of squares is taken in one fixed order that
// depends on `cols` alone.
struct RmsNormArgs {
  RowView x;                      // [rows, groups · cols]; f32, or the backend's scratch type
  RowView y;                      // likewise; or q8, where groups = 1 and 32 divides cols
  const float* weight = nullptr;  // [cols] f32, shared by the groups
  int32_t rows = 0;
  int32_t groups = 1;  // 1: the whole row; heads: per-head norm of q or k
  int32_t cols = 0;
  float eps = 0.0f;
};

void rms_norm_cpu(CpuContext& cpu, const RmsNormArgs& args);
void rms_norm_cuda(CudaContext& cuda, const RmsNormArgs& args);

}  // namespace tinyloop::kernels
