#include "stress/sim/fake_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "stress/sim/host_memory.h"
#include "stress/sim/violation.h"

namespace tinyloop::sim {

namespace {

// Blocks of this size and more are slabs. No page is so small, no other block so large.
constexpr size_t kLeastSlab = size_t{128} << 10;
// Where slabs seem to lie, and how far apart.
constexpr uint64_t kFirstAddress = uint64_t{1} << 44;
constexpr uint64_t kStride = size_t{16} << 20;
constexpr int kPoisonByte = 0xDE;

}  // namespace

FakeMemory::FakeMemory(Device& device) : device_(device) {}

FakeMemory::~FakeMemory() {
  require(blocks_.empty() && slabs_.empty(), "the device ends with memory handed out");
}

void* FakeMemory::do_allocate(size_t bytes) noexcept {
  const Allocating ours(nullptr);
  const bool too_many = device_.capacity > 0 && device_.bytes + bytes > device_.capacity;
  if (Device::due(device_.refuse_in) || device_.full || too_many) {
    ++device_.refused;
    return nullptr;
  }
  device_.bytes += bytes;
  if (bytes >= kLeastSlab) {
    const uint64_t number = next_slab_++;
    slabs_[number].resize(bytes / device_.layer_bytes * kernels::kPagePositions);
    return reinterpret_cast<void*>(kFirstAddress + number * kStride);
  }
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const block = std::aligned_alloc(kAlignment, rounded);
  std::memset(block, kPoisonByte, rounded);
  blocks_[block] = bytes;
  return block;
}

void FakeMemory::do_release(void* block, size_t bytes) noexcept {
  device_.bytes -= bytes;
  const auto address = reinterpret_cast<uint64_t>(block);
  if (address >= kFirstAddress && bytes >= kLeastSlab) {
    const auto slab = slabs_.find((address - kFirstAddress) / kStride);
    require(slab != slabs_.end(), "a slab is given back twice");
    slabs_.erase(slab);
    return;
  }
  const auto found = blocks_.find(block);
  require(found != blocks_.end() && found->second == bytes, "a block is given back twice");
  blocks_.erase(found);
  std::memset(block, kPoisonByte, bytes);
  std::free(block);
}

void FakeMemory::copy_in(void* device, const void* host, size_t bytes) {
  device_.may_break();
  std::memcpy(device, host, bytes);
}
void FakeMemory::copy_out(void* host, const void* device, size_t bytes) {
  device_.may_break();
  std::memcpy(host, device, bytes);
}
void FakeMemory::copy(void* to_device, const void* from_device, size_t bytes) {
  device_.may_break();
  std::memcpy(to_device, from_device, bytes);
}

const void* FakeMemory::stage(const void* host, size_t bytes) {
  const Allocating ours(nullptr);
  if (!device_.runs_ahead) return host;
  const auto* from = static_cast<const std::byte*>(host);
  staged_.emplace_back(from, from + bytes);
  return staged_.back().data();
}

void* FakeMemory::share(size_t bytes) {
  const Allocating ours(nullptr);
  shared_.emplace_back(bytes);
  return shared_.back().data();
}

Cell* FakeMemory::cells(const std::byte* share) {
  const auto address = reinterpret_cast<uint64_t>(share);
  require(share != nullptr, "a page is used that is not bound or has left the window");
  require(address >= kFirstAddress, "a page table names what is no page");
  const auto slab = slabs_.find((address - kFirstAddress) / kStride);
  require(slab != slabs_.end(), "a page is used whose slab has been given back");
  const uint64_t offset = (address - kFirstAddress) % kStride;
  const size_t first = offset / device_.layer_bytes * size_t(kernels::kPagePositions);
  require(first < slab->second.size(), "a page lies outside its slab");
  return slab->second.data() + first;
}

void FakeMemory::copy_page(const std::byte* from, std::byte* to, size_t bytes) {
  const size_t count = bytes / device_.layer_bytes * size_t(kernels::kPagePositions);
  std::copy_n(cells(from), count, cells(to));
}

}  // namespace tinyloop::sim
