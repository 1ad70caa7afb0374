// From CUDA's return codes to the library's errors.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/error.h"

namespace tinyloop::kernels {

// Throws Failure where `error` is one: out_of_memory for the device's memory, else replica_failed
// with CUDA's own words. `what` names the call: "cudaMemcpyAsync".
inline void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // an error that is not sticky must not show up in a later call
  const errc code = error == cudaErrorMemoryAllocation ? errc::out_of_memory : errc::replica_failed;
  throw base::Failure(code, std::string(what) + ": " + cudaGetErrorString(error) + " (" +
                                cudaGetErrorName(error) + ")");
}

}  // namespace tinyloop::kernels
