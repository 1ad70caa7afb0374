#include "kernels/cpu/cpu_memory.h"

#include <cstring>
#include <new>

namespace tinyloop::kernels {

namespace {

constexpr std::align_val_t kAlign{DeviceMemory::kAlignment};

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);  // null pointers are allowed for nothing
}

}  // namespace

void* CpuMemory::do_allocate(size_t bytes) noexcept {
  return ::operator new(bytes, kAlign, std::nothrow);
}

void CpuMemory::do_release(void* block, size_t) noexcept {
  ::operator delete(block, kAlign);
}

void* CpuMemory::share(size_t bytes) {
  return shared_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
}

void CpuMemory::copy_in(void* device, const void* host, size_t bytes) {
  copy_bytes(device, host, bytes);
}

void CpuMemory::copy_out(void* host, const void* device, size_t bytes) {
  copy_bytes(host, device, bytes);
}

void CpuMemory::copy(void* to_device, const void* from_device, size_t bytes) {
  copy_bytes(to_device, from_device, bytes);
}

}  // namespace tinyloop::kernels
