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
  // Of a norm that a product takes along: the op that wrote x has prepared it, in y and in the
  // backend's memory (Backend::linear_add_before, normed_add); it is the last one prepared.
  bool prepared = false;
};

// Whether a CUDA product can take the norm along.
inline bool is_foldable(const RmsNormArgs& norm) {
  return norm.groups == 1 && norm.x.type == ScalarType::f32 && norm.y.type == ScalarType::f16 &&
         !norm.y.index;
}

void rms_norm_cpu(CpuContext& cpu, const RmsNormArgs& args);
void rms_norm_cuda(CudaContext& cuda, const RmsNormArgs& args);
// What a folded norm wants (kernels/cuda/row_norm.cuh): y = x · w in FP16, not divided yet, and the
// sums of squares in CudaContext::row_squares. groups = 1, y FP16 without an index.
void prepare_norm_cuda(CudaContext& cuda, const RmsNormArgs& args);

}  // namespace tinyloop::kernels
