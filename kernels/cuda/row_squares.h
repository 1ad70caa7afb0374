// Sums of squares that stand beside rows whose norm is folded into the product that reads them
// (kernels/cuda/row_norm.cuh): one for every 16 columns, rows of them 16 bytes apart at least.
#pragma once

#include <cstdint>

#include "kernels/weight_tiles.h"

namespace tinyloop::kernels {

// Of a row.
constexpr int32_t square_units(int32_t cols) {
  return row_tiles(cols);
}
// From one row's first sum to the next one's.
constexpr int32_t square_pitch(int32_t cols) {
  return (square_units(cols) + 3) / 4 * 4;
}

}  // namespace tinyloop::kernels
