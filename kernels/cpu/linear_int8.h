// The linear layer on 8-bit activations and panels of quantised weights (kernels/weight_panels.h):
//   y[r, o] = Σ_b (scale[r, b] · d[o, b]) · (Σ_k u · x) + m[o, b] · scaled_sum[r, b]
// over the blocks b of 32 values of k. The inner sum is an integer and exact; the outer one is
// taken in f32 in order of b, whatever the number of rows, the target or the tile: a row has one
// result.
#pragma once

#include <span>

#include "kernels/linear.h"

namespace tinyloop::kernels {

// All layers have the layout `panels` and q8 inputs. They are worked on side by side.
void linear_int8_cpu(CpuContext& cpu, std::span<const LinearArgs> layers);

}  // namespace tinyloop::kernels
