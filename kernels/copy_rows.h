// y = x, with conversion between the scratch type and f32.
#pragma once

#include "kernels/row_view.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

struct CopyRowsArgs {
  RowView x;  // [rows, cols]
  RowView y;  // [rows, cols], not the rows of x
  int32_t rows = 0;
  int32_t cols = 0;
};

void copy_rows_cpu(CpuContext& cpu, const CopyRowsArgs& args);
void copy_rows_cuda(CudaContext& cuda, const CopyRowsArgs& args);

}  // namespace tinyloop::kernels
