// y += x: a layer's branch joins the residual stream.
#pragma once

#include "kernels/row_view.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

struct ResidualAddArgs {
  RowView x;  // [rows, cols] scratch type or f32
  RowView y;  // [rows, cols] f32
  int32_t rows = 0;
  int32_t cols = 0;
};

void residual_add_cpu(CpuContext& cpu, const ResidualAddArgs& args);
void residual_add_cuda(CudaContext& cuda, const ResidualAddArgs& args);

}  // namespace tinyloop::kernels
