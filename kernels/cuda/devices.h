// The CUDA devices of this machine, for people to read.
#pragma once

#include <string>

namespace tinyloop::kernels {

// "NVIDIA H100 (compute capability 9.0, 81559 MiB), …", or "no driver (…)" with the runtime's own
// words. Never fails; leaves no CUDA error behind.
std::string list_cuda_devices();

}  // namespace tinyloop::kernels
