// Host memory as the CPU backend's device memory: copies are plain copies, staging is free.
#pragma once

#include <memory>
#include <vector>

#include "kernels/device_memory.h"

namespace tinyloop::kernels {

class CpuMemory final : public DeviceMemory {
 public:
  using DeviceMemory::DeviceMemory;

  void copy_in(void* device, const void* host, size_t bytes) override;
  void copy_out(void* host, const void* device, size_t bytes) override;
  void copy(void* to_device, const void* from_device, size_t bytes) override;
  const void* stage(const void* host, size_t) override { return host; }
  void* share(size_t bytes) override;

 protected:
  void* do_allocate(size_t bytes) noexcept override;
  void do_release(void* block, size_t bytes) noexcept override;

 private:
  std::vector<std::unique_ptr<std::byte[]>> shared_;
};

}  // namespace tinyloop::kernels
