// Linear layers over quantised weights: y[r, o] = Σ_k W[o, k] · x[r, k].
//
// Determinism: the sum over k is taken in one order fixed by `weights.cols` alone. Row count,
// tiles, threads and the other layers of a call change who computes an output, never how.
#pragma once

#include <span>

#include "kernels/rms_norm.h"
#include "kernels/row_view.h"
#include "kernels/weight.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

struct LinearArgs {
  WeightMatrix weights;  // W [out, in], any weight type
  RowView x;             // [rows, in] scratch type or f32; q8 where the weights lie in panels
  RowView y;             // [rows, out] scratch type, or f32
  int32_t rows = 0;
};

// The rows that a matrix reads: 8-bit ones where it lies in panels.
inline RowView input_of(const WeightMatrix& weights, const RowView& x) {
  return weights.layout == WeightLayout::panels ? x.as_q8() : x;
}

// Several layers at once, none of which reads what another writes.
void linear_cpu(CpuContext& cpu, std::span<const LinearArgs> layers);
void linear_cuda(CudaContext& cuda, std::span<const LinearArgs> layers);
// y += W · x, y being f32. `next`: the norm to be taken of y, or null; whether it has been prepared
// (RmsNormArgs::prepared).
bool linear_add_cuda(CudaContext& cuda, const LinearArgs& layer, const RmsNormArgs* next);

inline void linear_cpu(CpuContext& cpu, const LinearArgs& layer) {
  linear_cpu(cpu, {&layer, 1});
}

}  // namespace tinyloop::kernels
