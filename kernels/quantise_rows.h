// f32 rows to q8 rows: each block of 32 values by itself (kernels/row_view.h, QuantisedBlock).
#pragma once

#include "kernels/row_view.h"

namespace tinyloop::kernels {

class CpuContext;

// `y` may be x.as_q8(): a row then gives way to its own quantised form.
struct QuantiseRowsArgs {
  RowView x;  // [rows, cols] f32
  RowView y;  // [rows, cols] q8
  int32_t rows = 0;
  int32_t cols = 0;  // a multiple of 32
};

void quantise_rows_cpu(CpuContext& cpu, const QuantiseRowsArgs& args);

}  // namespace tinyloop::kernels
