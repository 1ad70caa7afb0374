// The product that all int8 ops are made of: one panel of weights (kernels/weight_panels.h) times
// q8 rows,
//   y[r, o] = Σ_b (scale[r, b] · d[o, b]) · (Σ_k u · x) + m[o, b] · scaled_sum[r, b]
// over the blocks b of 32 values of k. The inner sum is an integer and exact; the outer one is
// taken in f32 in order of b, whatever the number of rows, the target or the tile: a row has one
// result.
#pragma once

#include <cstdint>

#include "kernels/linear.h"
#include "kernels/weight_panels.h"

namespace tinyloop::kernels {

// Panel `index` of the layer times all its rows; its first output goes to column `column` of y,
// which is f32.
using PanelProduct = void (*)(const LinearArgs& layer, int32_t index, int32_t column);

// The one for this machine.
PanelProduct panel_product();

// A breach is a bug: the matrix lies in panels, x is q8.
void check_panels(const WeightMatrix& weights, const RowView& x);

// Panels to hand out at a time, of `panels` that cost `multiply_adds` together: several chunks a
// thread, each of some microseconds.
int64_t chunk_panels(int64_t panels, int64_t multiply_adds, int32_t threads);

}  // namespace tinyloop::kernels
