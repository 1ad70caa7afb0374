#include <cuda_runtime.h>

#include "kernels/cuda/cuda_check.h"
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

double attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
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

// From the device's clocks and widths, and what passes of up to 64 rows make of them on an H200
// (bench/results): 0.93 of the memory's rate, a fifth of the tensor cores', 21 us in which a
// layer's kernels wait for one another, 40 us from one step to the next.
Pace pace_of_cuda_device(int device) {
  constexpr double kHertz = 1e3;        // clocks are given in kHz
  constexpr double kBytesPerClock = 2;  // a bit of the bus width at both edges
  const double memory_clock = attribute(cudaDevAttrMemoryClockRate, device) * kHertz;
  const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8;
  const double clock = attribute(cudaDevAttrClockRate, device) * kHertz;
  const double sms = attribute(cudaDevAttrMultiProcessorCount, device);
  const bool hopper = attribute(cudaDevAttrComputeCapabilityMajor, device) >= 9;
  const double multiply_adds = hopper ? 2048 : 1024;  // FP16, a clock and multiprocessor
  return {.weight_bytes_per_s = 0.93 * kBytesPerClock * memory_clock * bus_bytes,
          .multiply_adds_per_s = 0.19 * sms * clock * multiply_adds,
          .s_per_layer = 21e-6,
          .s_per_exit = 40e-6};
}

bool can_use_cuda_device(int device) {
  int major = 0;
  const cudaError_t error =
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaGetLastError();
  return error == cudaSuccess && major >= 8;
}

}  // namespace tinyloop::kernels
