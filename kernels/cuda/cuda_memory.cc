#include "kernels/cuda/cuda_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "kernels/cuda/cuda_check.h"

namespace tinyloop::kernels {

namespace {

constexpr size_t kSlabBytes = size_t{1} << 20;
constexpr size_t kLeastSpan = 256;

cudaMemPool_t create_pool(int device) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, device};
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  return pool;
}

void* allocate_pinned(size_t bytes) {
  void* block = nullptr;
  check_cuda(cudaHostAlloc(&block, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  return block;
}

}  // namespace

CudaMemory::CudaMemory(int device, cudaStream_t stream, size_t budget_bytes, PendingWork& pending)
    : DeviceMemory(budget_bytes),
      device_(device),
      stream_(stream),
      pending_(pending),
      pool_(create_pool(device)) {}

CudaMemory::~CudaMemory() {
  cudaStreamSynchronize(stream_);
  free_all();
  cudaMemPoolDestroy(pool_);
}

void CudaMemory::free_all() noexcept {
  for (const Slab& slab : slabs_) {
    cudaFreeHost(slab.host);
    release(slab.device, slab.bytes, MemoryUse::workspace);
  }
  slabs_.clear();
  for (void* block : pinned_) cudaFreeHost(block);
  pinned_.clear();
  cudaStreamSynchronize(stream_);
}

void* CudaMemory::do_allocate(size_t bytes) noexcept {
  cudaSetDevice(device_);
  void* block = nullptr;
  if (cudaMallocFromPoolAsync(&block, bytes, pool_, stream_) == cudaSuccess) return block;
  cudaGetLastError();
  return nullptr;
}

// In the order of the stream: what was started before may still use the block.
void CudaMemory::do_release(void* block, size_t) noexcept {
  cudaSetDevice(device_);
  try {
    pending_.start_pending();
  } catch (...) {  // the device has failed: its memory goes with the pool
  }
  cudaFreeAsync(block, stream_);
}

void CudaMemory::copy_in(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  start_copy(device, host, bytes, cudaMemcpyHostToDevice);
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void CudaMemory::copy_out(void* host, const void* device, size_t bytes) {
  if (bytes == 0) return;
  start_copy(host, device, bytes, cudaMemcpyDeviceToHost);
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void CudaMemory::copy(void* to_device, const void* from_device, size_t bytes) {
  if (bytes > 0) start_copy(to_device, from_device, bytes, cudaMemcpyDeviceToDevice);
}

// Behind everything that was started or collected before.
void CudaMemory::start_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  check_cuda(cudaSetDevice(device_), "cudaSetDevice");
  pending_.start_pending();
  check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream_), "cudaMemcpyAsync");
}

// Sizes are rounded up so that arrays that grow a little (page tables) keep their places.
const void* CudaMemory::stage(const void* host, size_t bytes) {
  const size_t span = std::bit_ceil(std::max(bytes, kLeastSpan));
  Slab& slab = slab_for(span);
  std::byte* to = slab.host + slab.used;
  std::byte* device = slab.device + slab.used;
  if (bytes > 0) std::memcpy(to, host, bytes);
  slab.used += span;
  return device;
}

const std::byte* CudaMemory::staged(const void* device) const {
  const auto at = reinterpret_cast<uintptr_t>(device);
  for (const Slab& slab : slabs_) {
    const auto begin = reinterpret_cast<uintptr_t>(slab.device);
    if (at >= begin && at < begin + slab.used) return slab.host + (at - begin);
  }
  return nullptr;
}

void CudaMemory::begin_step() {
  for (Slab& slab : slabs_) slab.used = slab.taken = 0;
}

CudaMemory::Slab& CudaMemory::slab_for(size_t bytes) {
  for (Slab& slab : slabs_) {
    if (slab.bytes - slab.used >= bytes) return slab;
  }
  Slab slab;
  slab.bytes = std::max(bytes, kSlabBytes);
  slabs_.reserve(slabs_.size() + 1);
  slab.device = static_cast<std::byte*>(allocate(slab.bytes, MemoryUse::workspace));
  if (!slab.device) {
    throw base::Failure(errc::out_of_memory, "staging arena: " + std::to_string(slab.bytes) +
                                                 " bytes could not be allocated");
  }
  try {
    slab.host = static_cast<std::byte*>(allocate_pinned(slab.bytes));
  } catch (...) {
    release(slab.device, slab.bytes, MemoryUse::workspace);
    throw;
  }
  std::memset(slab.host, 0, slab.bytes);  // the gaps between spans travel, too
  slabs_.push_back(slab);
  return slabs_.back();
}

void* CudaMemory::share(size_t bytes) {
  pinned_.reserve(pinned_.size() + 1);
  pinned_.push_back(allocate_pinned(bytes));
  return pinned_.back();
}

}  // namespace tinyloop::kernels
