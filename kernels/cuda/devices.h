// The CUDA devices of this machine, for people to read and for estimates.
#pragma once

#include <string>

#include "kernels/pace.h"

namespace tinyloop::kernels {

// "NVIDIA H100 (compute capability 9.0, 81559 MiB), …", or "no driver (…)" with the runtime's own
// words. Never fails; leaves no CUDA error behind.
std::string list_cuda_devices();

// 0 where there is no driver or no device. Never fails; leaves no CUDA error behind.
int cuda_device_count();

// Whether this library has code for an existing device: from compute capability 8.0. Never fails;
// leaves no CUDA error behind.
bool can_use_cuda_device(int device);

// Of an existing device. Throws Failure(replica_failed) where the driver reports an error.
Pace pace_of_cuda_device(int device);

}  // namespace tinyloop::kernels
