#include <cuda_runtime.h>

#include "kernels/cuda/devices.h"

namespace tinyloop::kernels {

namespace {

std::string describe_device(int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device);
      error != cudaSuccess) {
    return "device " + std::to_string(device) + " (" + cudaGetErrorString(error) + ")";
  }
  return std::string(properties.name) + " (compute capability " + std::to_string(properties.major) +
         "." + std::to_string(properties.minor) + ", " +
         std::to_string(properties.totalGlobalMem >> 20) + " MiB)";
}

}  // namespace

std::string list_cuda_devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  std::string list;
  if (error != cudaSuccess) list = std::string("no driver (") + cudaGetErrorString(error) + ")";
  for (int device = 0; error == cudaSuccess && device < count; ++device) {
    list += (device ? ", " : "") + describe_device(device);
  }
  cudaGetLastError();  // a failed query must not show up as a later call's error
  return list;
}

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  return count;
}

bool can_use_cuda_device(int device) {
  int major = 0;
  const cudaError_t error =
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaGetLastError();
  return error == cudaSuccess && major >= 8;
}

}  // namespace tinyloop::kernels
