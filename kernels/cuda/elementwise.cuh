// Ops that compute each element by itself: one thread an element, a row of blocks a row.
#pragma once

#include <algorithm>

#include "kernels/cuda/device_tools.cuh"

namespace tinyloop::kernels {

inline constexpr int kElementThreads = 256;

template <class Op>
__global__ void __launch_bounds__(kElementThreads) element_kernel(const Op op) {
  wait_for_previous();
  release_next();
  const int row = int(blockIdx.x);
  const int step = int(gridDim.y * blockDim.x);
  for (int c = int(blockIdx.y * blockDim.x + threadIdx.x); c < op.cols; c += step) op.run(row, c);
}

// Op: a trivially copyable struct with `cols` and `__device__ void run(int row, int col) const`.
template <class Op>
void launch_elements(CudaContext& cuda, int32_t rows, const Op& op) {
  if (rows == 0) return;
  const unsigned blocks = unsigned((op.cols + kElementThreads * 2 - 1) / (kElementThreads * 2));
  cuda.launch(element_kernel<Op>, {{unsigned(rows), std::max(blocks, 1u)}, kElementThreads}, op);
}

}  // namespace tinyloop::kernels
