// The one allocator of a replica: every device byte the replica holds comes from here and is
// counted here.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tinyloop::kernels {

// What a block of memory is for; the lines of MemoryReport.
enum class MemoryUse : uint8_t { weights, fp16_weight_cache, buffers, workspace, arena, handles };
inline constexpr size_t kMemoryUses = 6;

// Counts, bounds and (for tests) fails allocations; a derived class supplies the memory.
// allocate and release are called by the owning replica's thread alone, the queries by any thread.
class DeviceMemory {
 public:
  static constexpr size_t kAlignment = 256;

  explicit DeviceMemory(size_t budget_bytes = 0) : budget_(budget_bytes) {}
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // `bytes` > 0, aligned to kAlignment, contents undefined. nullptr: the device has no more, or the
  // budget would be exceeded, or a test asked for this failure.
  void* allocate(size_t bytes, MemoryUse use) noexcept;
  // `bytes` and `use` as given to allocate.
  void release(void* block, size_t bytes, MemoryUse use) noexcept;

  size_t used(MemoryUse use) const noexcept {
    return used_[size_t(use)].load(std::memory_order_relaxed);
  }
  size_t used_total() const noexcept;
  size_t budget() const noexcept { return budget_; }  // 0: none
  uint64_t allocation_count() const noexcept {
    return allocations_.load(std::memory_order_relaxed);
  }

  // Fault injection. The n-th allocation from now fails, once (1 = the next); 0 switches it off.
  void fail_allocation(uint64_t nth) noexcept { fail_in_.store(nth, std::memory_order_relaxed); }
  // Every allocation fails while this is on: the device is full.
  void fail_all_allocations(bool on) noexcept { full_.store(on, std::memory_order_relaxed); }

  // Host copies. The source or destination on the host may be any memory.
  virtual void copy_in(void* device, const void* host, size_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, size_t bytes) = 0;
  virtual void copy(void* to_device, const void* from_device, size_t bytes) = 0;
  // Makes a host array readable by the ops of the current step. The result is valid until the next
  // begin_step(). The host array must stay unchanged until the ops that read it have run: where the
  // backend runs ahead, it is copied at once, and may change when stage() returns.
  virtual const void* stage(const void* host, size_t bytes) = 0;
  virtual void begin_step() {}
  // Memory that ops may write and the host reads after the backend's synchronise(). Lives as long
  // as this object; not counted. Throws base::Failure(out_of_memory) or std::bad_alloc.
  virtual void* share(size_t bytes) = 0;

 protected:
  virtual void* do_allocate(size_t bytes) noexcept = 0;
  virtual void do_release(void* block, size_t bytes) noexcept = 0;

 private:
  const size_t budget_;
  std::array<std::atomic<size_t>, kMemoryUses> used_{};
  std::atomic<uint64_t> allocations_{0};
  std::atomic<uint64_t> fail_in_{0};
  std::atomic<bool> full_{false};
};

// An owned block of device memory. Movable; empty after a move or when allocation failed.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceMemory& memory, size_t bytes, MemoryUse use) noexcept
      : memory_(&memory),
        data_(memory.allocate(bytes, use)),
        bytes_(data_ ? bytes : 0),
        use_(use) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_) memory_->release(data_, bytes_, use_);
  }

  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(use_, other.use_);
  }

  DeviceMemory* memory_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  MemoryUse use_ = MemoryUse::buffers;
};

}  // namespace tinyloop::kernels
