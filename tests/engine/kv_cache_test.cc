// Page pools, the K/V budget, and the page tables of sequences.
#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/error.h"
#include "engine/page_pool.h"
#include "engine/sequence_cache.h"
#include "kernels/cpu/cpu_memory.h"

namespace tinyloop::engine {
namespace {

using kernels::MemoryUse;

constexpr kernels::KvLayout kLayout{kernels::ScalarType::f32, 2, 16};

TEST(PagePool, PagesAreDistinctAndCounted) {
  kernels::CpuMemory memory;
  PagePool pool(memory, 512 << 10);  // four pages a slab
  std::set<std::byte*> addresses;
  std::vector<int32_t> pages;
  for (int i = 0; i < 9; ++i) {
    pages.push_back(pool.acquire());
    addresses.insert(pool.address(pages.back()));
  }
  EXPECT_EQ(addresses.size(), 9u);
  EXPECT_EQ(pool.used(), 9u);
  EXPECT_EQ(pool.free(), 3u);
  EXPECT_EQ(memory.used(MemoryUse::arena), 3u * PagePool::kSlabBytes);
  for (int32_t page : pages) pool.release(page);
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.trim(), 3u * PagePool::kSlabBytes);
  EXPECT_EQ(memory.used_total(), 0u);
}

TEST(PagePool, ReferencesKeepAPage) {
  kernels::CpuMemory memory;
  PagePool pool(memory, 4096);
  const int32_t page = pool.acquire();
  pool.retain(page);
  pool.release(page);
  EXPECT_EQ(pool.references(page), 1);
  EXPECT_EQ(pool.used(), 1u);
  pool.release(page);
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_THROW(pool.release(page), ::tinyloop::base::Failure);
  EXPECT_THROW(pool.retain(page), tinyloop::base::Failure);
}

TEST(PagePool, TrimKeepsSlabsInUseAndReusesTheirPlaces) {
  kernels::CpuMemory memory;
  PagePool pool(memory, PagePool::kSlabBytes);  // one page a slab
  const int32_t a = pool.acquire(), b = pool.acquire(), c = pool.acquire();
  pool.release(b);
  EXPECT_EQ(pool.trim(), PagePool::kSlabBytes);
  EXPECT_EQ(pool.free(), 0u);
  EXPECT_EQ(pool.acquire(), b);
  EXPECT_NE(pool.address(a), pool.address(c));
  EXPECT_EQ(memory.used(MemoryUse::arena), 3 * PagePool::kSlabBytes);
}

TEST(PagePool, DeviceOutOfMemoryGivesNoPage) {
  kernels::CpuMemory memory(PagePool::kSlabBytes);
  PagePool pool(memory, PagePool::kSlabBytes / 2);
  const int32_t first = pool.acquire();
  EXPECT_NE(pool.acquire(), PagePool::kNoPage);
  EXPECT_EQ(pool.acquire(), PagePool::kNoPage);
  pool.release(first);
  EXPECT_EQ(pool.acquire(), first);
}

class SequenceCacheTest : public testing::Test {
 protected:
  kernels::CpuMemory memory_;
  MemoryLedger ledger_;
  KvCache cache_{memory_, ledger_, LoopSchedule{1, 2, 1}, kLayout, 1 << 20};
};

TEST_F(SequenceCacheTest, BytesAreWholePagesOfEveryGroup) {
  // One layer's page share: K and V, 2 heads, 16 positions, 16 dimensions, 4 bytes.
  EXPECT_EQ(kLayout.layer_bytes(), 2u * 2 * 16 * 16 * 4);
  EXPECT_EQ(cache_.bytes(3, 4), 3 * (2 + 4 * 2) * kLayout.layer_bytes());
}

TEST_F(SequenceCacheTest, ExtendsInPagesAndReturnsThem) {
  {
    SequenceCache sequence(cache_, 3, 0, 100);
    ASSERT_TRUE(sequence.extend(1));
    EXPECT_EQ(sequence.table(0).size(), 1u);
    ASSERT_TRUE(sequence.extend(16));
    EXPECT_EQ(sequence.table(3).size(), 1u);
    ASSERT_TRUE(sequence.extend(17));
    for (int32_t group = 0; group <= 3; ++group) EXPECT_EQ(sequence.table(group).size(), 2u);
    EXPECT_EQ(cache_.pool(0).used(), 2u);
    EXPECT_EQ(cache_.pool(1).used(), 6u);
  }
  EXPECT_EQ(cache_.pool(0).used() + cache_.pool(1).used(), 0u);
}

TEST_F(SequenceCacheTest, WindowGivesBackWholePagesThatNobodyCanReach) {
  SequenceCache sequence(cache_, 1, 20, 200);
  ASSERT_TRUE(sequence.extend(64));
  sequence.slide(35);  // position 35 sees 16 … 35
  EXPECT_EQ(sequence.table(1)[0], PagePool::kNoPage);
  EXPECT_NE(sequence.table(1)[1], PagePool::kNoPage);
  sequence.slide(50);  // position 50 sees 31 … 50
  EXPECT_NE(sequence.table(0)[1], PagePool::kNoPage);
  sequence.slide(51);
  EXPECT_EQ(sequence.table(0)[1], PagePool::kNoPage);
  EXPECT_EQ(cache_.pool(0).used(), 2u);
}

TEST_F(SequenceCacheTest, MaxPagesBoundsWhatAWindowedSequenceHolds) {
  for (int32_t window : {1, 15, 16, 17, 40}) {
    for (int32_t chunk : {1, 7, 16, 33}) {
      SequenceCache sequence(cache_, 1, window, 300);
      size_t most = 0;
      for (int32_t done = 0; done < 300; done += chunk) {
        ASSERT_TRUE(sequence.extend(std::min(300, done + chunk)));
        most = std::max(most, cache_.pool(0).used());
        sequence.slide(std::min(300, done + chunk));
      }
      EXPECT_LE(most, size_t(SequenceCache::max_pages(300, window, chunk)))
          << "window " << window << " chunk " << chunk;
    }
  }
}

TEST_F(SequenceCacheTest, FailedExtendLeavesEverythingAsItWas) {
  SequenceCache sequence(cache_, 2, 0, 4000);
  ASSERT_TRUE(sequence.extend(16));
  const size_t used = cache_.pool(0).used() + cache_.pool(1).used();
  memory_.fail_allocation(1);
  EXPECT_FALSE(sequence.extend(4000));
  EXPECT_EQ(cache_.pool(0).used() + cache_.pool(1).used(), used);
  EXPECT_EQ(sequence.table(0).size(), 1u);
  EXPECT_EQ(sequence.table(2).size(), 1u);
  EXPECT_TRUE(sequence.extend(32));
}

TEST_F(SequenceCacheTest, ReservationsStopAtTheBudget) {
  EXPECT_TRUE(cache_.try_reserve(1 << 19));
  EXPECT_FALSE(cache_.try_reserve((1 << 19) + 1));
  EXPECT_TRUE(cache_.try_reserve(1 << 19));
  EXPECT_EQ(ledger_.report(memory_).cache_reserved, size_t{1} << 20);
  cache_.cancel_reservation(1 << 20);
  EXPECT_EQ(cache_.reserved(), 0u);
  EXPECT_THROW(cache_.cancel_reservation(1), tinyloop::base::Failure);
}

TEST(KvCache, LlamaFilesHaveNoOuterGroup) {
  kernels::CpuMemory memory;
  MemoryLedger ledger;
  KvCache cache(memory, ledger, LoopSchedule{0, 3, 0}, kLayout, 1 << 20);
  SequenceCache sequence(cache, 1, 0, 40);
  ASSERT_TRUE(sequence.extend(40));
  EXPECT_TRUE(sequence.table(0).empty());
  EXPECT_EQ(sequence.table(1).size(), 3u);
}

}  // namespace
}  // namespace tinyloop::engine
