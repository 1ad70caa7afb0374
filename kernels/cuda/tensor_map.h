// Descriptions of row matrices for the tensor copy engine of compute capability 9.0.
#pragma once

#include <cuda.h>

#include "kernels/row_view.h"

namespace tinyloop::kernels {

// `x`: [rows, cols] FP16 rows without an index, 16 bytes dividing its address and stride. Copies of
// `box_rows` rows and 64 columns, swizzled as kernels/cuda/mma.cuh wants its B; zeros beyond the
// matrix. Throws Failure(replica_failed).
CUtensorMap row_tensor_map(const RowView& x, int32_t rows, int32_t cols, int32_t box_rows);

}  // namespace tinyloop::kernels
