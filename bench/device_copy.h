// Host arrays on a device, for benchmarks of ops.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/device_memory.h"

namespace tinyloop::bench {

// Throws std::runtime_error where the device has no more memory.
template <class T>
kernels::DeviceBuffer copy_of(kernels::DeviceMemory& memory, const std::vector<T>& values) {
  kernels::DeviceBuffer buffer(memory, std::max<size_t>(values.size() * sizeof(T), 1),
                               kernels::MemoryUse::buffers);
  if (!buffer) throw std::runtime_error("out of device memory");
  memory.copy_in(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

}  // namespace tinyloop::bench
