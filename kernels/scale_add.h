// y = a ⊙ y + x: the diagonal injection of a looped block, a being a vector over the columns.
#pragma once

#include "kernels/row_view.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

struct ScaleAddArgs {
  const float* a = nullptr;  // [cols] f32
  RowView x;                 // [rows, cols] scratch type or f32
  RowView y;                 // [rows, cols] f32
  int32_t rows = 0;
  int32_t cols = 0;
};

void scale_add_cpu(CpuContext& cpu, const ScaleAddArgs& args);
void scale_add_cuda(CudaContext& cuda, const ScaleAddArgs& args);

}  // namespace tinyloop::kernels
