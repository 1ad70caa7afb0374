// A second copy of a matrix, for libraries that multiply plain FP16 matrices: row-major, each row
// filled up with zeros to fp16_pitch(cols) numbers. The numbers are those that products read from
// the tiles, to the bit.
#pragma once

#include "kernels/weight.h"
#include "kernels/weight_tiles.h"

namespace tinyloop::kernels {

class CudaContext;

// Numbers from one row of a copy to the next: whole tiles, and so rows that begin at multiples of
// 128 bytes.
constexpr int32_t fp16_pitch(int32_t cols) {
  return depth_tiles(cols) * kTileDepth;
}
constexpr size_t fp16_copy_bytes(int32_t rows, int32_t cols) {
  return size_t(rows) * size_t(fp16_pitch(cols)) * 2;
}

struct Fp16CopyArgs {
  WeightMatrix weights;       // in tiles
  std::byte* copy = nullptr;  // [fp16_copy_bytes(rows, cols)]
};

void fp16_copy_cuda(CudaContext& cuda, const Fp16CopyArgs& args);

}  // namespace tinyloop::kernels
