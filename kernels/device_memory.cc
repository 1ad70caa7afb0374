#include "kernels/device_memory.h"

namespace tinyloop::kernels {

namespace {

// Counts a wish for a failure down by one; true when this allocation is the one to fail.
bool take_failure(std::atomic<uint64_t>& fail_in) noexcept {
  uint64_t left = fail_in.load(std::memory_order_relaxed);
  while (left != 0 && !fail_in.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
  }
  return left == 1;
}

}  // namespace

void* DeviceMemory::allocate(size_t bytes, MemoryUse use) noexcept {
  allocations_.fetch_add(1, std::memory_order_relaxed);
  if (take_failure(fail_in_) || full_.load(std::memory_order_relaxed)) return nullptr;
  const size_t used = used_total();
  if (budget_ != 0 && (used > budget_ || bytes > budget_ - used)) return nullptr;
  void* block = do_allocate(bytes);
  if (block) used_[size_t(use)].fetch_add(bytes, std::memory_order_relaxed);
  return block;
}

void DeviceMemory::release(void* block, size_t bytes, MemoryUse use) noexcept {
  if (!block) return;
  do_release(block, bytes);
  used_[size_t(use)].fetch_sub(bytes, std::memory_order_relaxed);
}

size_t DeviceMemory::used_total() const noexcept {
  size_t total = 0;
  for (const auto& used : used_) total += used.load(std::memory_order_relaxed);
  return total;
}

}  // namespace tinyloop::kernels
