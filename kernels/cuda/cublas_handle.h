// Matrix products by cuBLAS, on the replica's stream and with the replica's memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <string>

#include "kernels/cuda/cublas_library.h"
#include "kernels/device_memory.h"

namespace tinyloop::kernels {

// y[r, o] = Σ_k w[o, k] · x[r, k], or y += that: operands FP16, sums and y FP32. Rows are dense;
// pitches are in elements, those of w and x multiples of 8, and w and x begin at multiples of 16
// bytes.
struct Gemm {
  const void* weights;  // [outputs][weights_pitch]
  const void* x;        // [rows][x_pitch]
  float* y;             // [rows][y_pitch]
  int32_t outputs;
  int32_t weights_pitch;
  int32_t x_pitch;
  int32_t y_pitch;
  int32_t rows;
  int32_t depth;  // of k
  bool add;
};

// Thread rule: the replica's thread alone, with its device current.
class CublasHandle {
 public:
  // `memory` and `stream` outlive the handle. Throws Failure: invalid_argument where there is no
  // cuBLAS under `names`, out_of_memory, replica_failed.
  CublasHandle(DeviceMemory& memory, cudaStream_t stream, std::span<const char* const> names);
  ~CublasHandle();
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;

  // Starts the product behind what has been started on the stream. Throws Failure.
  void run(const Gemm& gemm);
  std::string version() const;  // "cuBLAS 13.0.2"

 private:
  const CublasLibrary library_;
  DeviceBuffer workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace tinyloop::kernels
