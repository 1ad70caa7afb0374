// Linear layer over quantised weights: y[r, o] = Σ_k W[o, k] · x[r, k].
//
// Determinism: the sum over k is taken in one order fixed by `weights.cols` alone. Row count, tiles
// and threads change who computes an output, never how.
#pragma once

#include "kernels/row_view.h"
#include "kernels/weight.h"

namespace tinyloop::kernels {

class CpuContext;

struct LinearArgs {
  WeightMatrix weights;  // W [out, in], any weight type
  RowView x;             // [rows, in] scratch type
  RowView y;             // [rows, out] scratch type, or f32
  int32_t rows = 0;
};

void linear_cpu(CpuContext& cpu, const LinearArgs& args);

}  // namespace tinyloop::kernels
