#include "kernels/device_memory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cpu/cpu_memory.h"

namespace tinyloop::kernels {
namespace {

TEST(DeviceMemoryTest, CountsEveryByteByUse) {
  CpuMemory memory;
  void* a = memory.allocate(1000, MemoryUse::weights);
  void* b = memory.allocate(1, MemoryUse::arena);
  void* c = memory.allocate(24, MemoryUse::weights);
  EXPECT_EQ(memory.used(MemoryUse::weights), 1024u);
  EXPECT_EQ(memory.used(MemoryUse::arena), 1u);
  EXPECT_EQ(memory.used(MemoryUse::handles), 0u);
  EXPECT_EQ(memory.used_total(), 1025u);
  EXPECT_EQ(memory.allocation_count(), 3u);
  memory.release(a, 1000, MemoryUse::weights);
  EXPECT_EQ(memory.used_total(), 25u);
  memory.release(b, 1, MemoryUse::arena);
  memory.release(c, 24, MemoryUse::weights);
  memory.release(nullptr, 7, MemoryUse::weights);
  EXPECT_EQ(memory.used_total(), 0u);
  EXPECT_EQ(memory.allocation_count(), 3u);
}

TEST(DeviceMemoryTest, BlocksAreAlignedAndWritable) {
  CpuMemory memory;
  for (size_t bytes : {size_t{1}, size_t{255}, size_t{256}, size_t{100001}}) {
    const DeviceBuffer block(memory, bytes, MemoryUse::buffers);
    ASSERT_TRUE(block);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data()) % DeviceMemory::kAlignment, 0u);
    std::memset(block.data(), 0x5a, bytes);
  }
}

TEST(DeviceMemoryTest, TheBudgetIsNeverExceeded) {
  CpuMemory memory(100);
  EXPECT_EQ(memory.budget(), 100u);
  EXPECT_EQ(memory.allocate(101, MemoryUse::buffers), nullptr);
  void* a = memory.allocate(60, MemoryUse::buffers);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(memory.allocate(41, MemoryUse::weights), nullptr);
  EXPECT_EQ(memory.allocate(SIZE_MAX, MemoryUse::weights), nullptr);
  void* b = memory.allocate(40, MemoryUse::weights);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(memory.used_total(), 100u);
  EXPECT_EQ(memory.allocate(1, MemoryUse::weights), nullptr);
  memory.release(a, 60, MemoryUse::buffers);
  void* c = memory.allocate(60, MemoryUse::arena);
  EXPECT_NE(c, nullptr);
  memory.release(b, 40, MemoryUse::weights);
  memory.release(c, 60, MemoryUse::arena);
  EXPECT_EQ(memory.used_total(), 0u);
}

TEST(DeviceMemoryTest, TheNthAllocationFailsAndOnlyThat) {
  CpuMemory memory;
  for (uint64_t nth : {1u, 2u, 5u}) {
    memory.fail_allocation(nth);
    for (uint64_t i = 1; i <= 6; ++i) {
      const DeviceBuffer block(memory, 8, MemoryUse::buffers);
      EXPECT_EQ(bool(block), i != nth) << "allocation " << i << ", to fail: " << nth;
    }
  }
  memory.fail_allocation(1);
  memory.fail_allocation(0);
  EXPECT_TRUE(DeviceBuffer(memory, 8, MemoryUse::buffers));
  EXPECT_EQ(memory.used_total(), 0u);
}

TEST(DeviceMemoryTest, ABufferMovesAndReleasesOnce) {
  CpuMemory memory;
  DeviceBuffer a(memory, 10, MemoryUse::handles);
  DeviceBuffer b(std::move(a));
  EXPECT_EQ(memory.used(MemoryUse::handles), 10u);
  b = DeviceBuffer(memory, 20, MemoryUse::arena);
  EXPECT_EQ(memory.used(MemoryUse::handles), 0u);
  EXPECT_EQ(memory.used(MemoryUse::arena), 20u);
  b = DeviceBuffer();
  EXPECT_EQ(memory.used_total(), 0u);
}

TEST(DeviceMemoryTest, CopiesAndStaging) {
  CpuMemory memory;
  const DeviceBuffer a(memory, 4, MemoryUse::buffers), b(memory, 4, MemoryUse::buffers);
  char out[4] = {};
  memory.copy_in(a.data(), "abc", 4);
  memory.copy(b.data(), a.data(), 4);
  memory.copy_out(out, b.data(), 4);
  EXPECT_STREQ(out, "abc");
  memory.copy_in(a.data(), nullptr, 0);
  memory.begin_step();
  EXPECT_STREQ(static_cast<const char*>(memory.stage("xyz", 4)), "xyz");
}

}  // namespace
}  // namespace tinyloop::kernels
