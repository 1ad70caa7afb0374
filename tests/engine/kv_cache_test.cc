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

// One page place in prelude, coda and `loops` iterations.
size_t place_bytes(const KvCache& cache, int32_t loops) {
  return cache.page_bytes(kPreludeGroup) + cache.page_bytes(kCodaGroup) +
         size_t(loops) * cache.page_bytes(kFirstLoopGroup);
}

class SequenceCacheTest : public testing::Test {
 protected:
  size_t used() const {
    return cache_.pool(PageKind::prelude).used() + cache_.pool(PageKind::coda).used() +
           cache_.pool(PageKind::loop).used();
  }
  // All that a sequence at this depth may need.
  void fund(SequenceCache& sequence, size_t bytes) {
    ASSERT_TRUE(sequence.funding().pages.try_take(cache_, bytes));
  }

  kernels::CpuMemory memory_;
  MemoryLedger ledger_;
  KvCache cache_{memory_, ledger_, LoopSchedule{1, 2, 1}, kLayout, 8 << 20};
};

WrittenRows rows_to(int32_t end, int32_t loops) {
  return {.first = 0, .end = end, .from_loop = 0, .to_loop = loops};
}

TEST_F(SequenceCacheTest, BytesAreWholePagesOfEveryGroup) {
  // One layer's page share: K and V, 2 heads, 16 positions, 16 dimensions, 4 bytes.
  EXPECT_EQ(kLayout.layer_bytes(), 2u * 2 * 16 * 16 * 4);
  EXPECT_EQ(place_bytes(cache_, 4), (2 + 4 * 2) * kLayout.layer_bytes());
}

TEST_F(SequenceCacheTest, GrowsInPagesAndReturnsThem) {
  {
    SequenceCache sequence(cache_, 3, 0, 100);
    fund(sequence, 2 * place_bytes(cache_, 3));
    ASSERT_TRUE(sequence.prepare(rows_to(1, 3)));
    EXPECT_EQ(sequence.pages(kPreludeGroup).size(), 1u);
    ASSERT_TRUE(sequence.prepare(rows_to(16, 3)));
    EXPECT_EQ(sequence.pages(kFirstLoopGroup + 2).size(), 1u);
    ASSERT_TRUE(sequence.prepare(rows_to(17, 3)));
    for (int32_t group = 0; group < kFirstLoopGroup + 3; ++group) {
      EXPECT_EQ(sequence.pages(group).size(), 2u);
    }
    EXPECT_EQ(cache_.pool(PageKind::prelude).used(), 2u);
    EXPECT_EQ(cache_.pool(PageKind::coda).used(), 2u);
    EXPECT_EQ(cache_.pool(PageKind::loop).used(), 6u);
    EXPECT_EQ(sequence.funding().pages.bytes(), 0u);
    EXPECT_EQ(cache_.committed(), 2 * place_bytes(cache_, 3));
    // Beyond what has been reserved there is nothing to take.
    EXPECT_THROW(sequence.prepare(rows_to(33, 3)), base::Failure);
  }
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(cache_.committed(), 0u);
}

TEST_F(SequenceCacheTest, WindowGivesBackWholePagesThatNobodyCanReach) {
  SequenceCache sequence(cache_, 1, 20, 200);
  fund(sequence, 4 * place_bytes(cache_, 1));
  ASSERT_TRUE(sequence.prepare(rows_to(64, 1)));
  const auto page = [&](int32_t group, size_t entry) { return sequence.pages(group)[entry]; };
  sequence.slide(35);  // position 35 sees 16 … 35
  EXPECT_EQ(page(kFirstLoopGroup, 0), PagePool::kNoPage);
  EXPECT_NE(page(kFirstLoopGroup, 1), PagePool::kNoPage);
  sequence.slide(50);  // position 50 sees 31 … 50
  EXPECT_NE(page(kPreludeGroup, 1), PagePool::kNoPage);
  sequence.slide(51);
  EXPECT_EQ(page(kPreludeGroup, 1), PagePool::kNoPage);
  EXPECT_EQ(cache_.pool(PageKind::prelude).used(), 2u);
  EXPECT_EQ(sequence.funding().pages.bytes(), 2 * place_bytes(cache_, 1));  // to be used again
}

TEST_F(SequenceCacheTest, MaxPagesBoundsWhatAWindowedSequenceHolds) {
  for (int32_t window : {1, 15, 16, 17, 40}) {
    for (int32_t chunk : {1, 7, 16, 33}) {
      SequenceCache sequence(cache_, 1, window, 300);
      fund(sequence, size_t(SequenceCache::max_pages(300, window, chunk)) * place_bytes(cache_, 1));
      for (int32_t done = 0; done < 300; done += chunk) {
        ASSERT_TRUE(sequence.prepare(
            {.first = done, .end = std::min(300, done + chunk), .from_loop = 0, .to_loop = 1}))
            << "window " << window << " chunk " << chunk;
        sequence.slide(std::min(300, done + chunk));
      }
    }
  }
}

TEST_F(SequenceCacheTest, WithoutDeviceMemoryNothingIsLost) {
  {
    SequenceCache sequence(cache_, 2, 0, 4000);
    fund(sequence, size_t(pages_for(4000)) * place_bytes(cache_, 2));
    const size_t committed = cache_.committed();
    ASSERT_TRUE(sequence.prepare(rows_to(16, 2)));
    memory_.fail_all_allocations(true);
    EXPECT_FALSE(sequence.prepare(rows_to(4000, 2)));
    EXPECT_EQ(cache_.committed(), committed);
    memory_.fail_all_allocations(false);
  }
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(cache_.committed(), 0u);
}

// A second sequence begins with the first one's pages, and copies the one that it writes to.
TEST_F(SequenceCacheTest, SharedPagesAreCopiedWhenTheyAreWritten) {
  SequenceCache first(cache_, 2, 0, 100), second(cache_, 2, 0, 100);
  fund(first, 2 * place_bytes(cache_, 2));
  ASSERT_TRUE(first.prepare(rows_to(20, 2)));
  std::vector<PageTable> prefix;
  for (int32_t group = 0; group < kFirstLoopGroup + 2; ++group) {
    prefix.emplace_back(cache_, group).share(first.table(group), 2);
  }
  second.share(prefix, 20);
  EXPECT_EQ(used(), 8u);
  fund(second, 2 * place_bytes(cache_, 2));
  ASSERT_TRUE(second.prepare({.first = 20, .end = 33, .from_loop = 0, .to_loop = 2}));
  ASSERT_EQ(second.copies().size(), 4u);  // one of each group
  for (const PageCopy& copy : second.copies()) {
    EXPECT_EQ(copy.from, first.pages(copy.group)[1]);
    EXPECT_EQ(copy.to, second.pages(copy.group)[1]);
    EXPECT_NE(copy.from, copy.to);
    EXPECT_EQ(second.pages(copy.group)[0], first.pages(copy.group)[0]);
  }
  EXPECT_EQ(used(), 16u);  // two shared, one copied, one new, and the first one's second
  second.copies().clear();
  ASSERT_TRUE(second.prepare({.first = 33, .end = 34, .from_loop = 0, .to_loop = 2}));
  EXPECT_TRUE(second.copies().empty());
  first.clear();
  EXPECT_EQ(used(), 16u);  // the prefix holds them
  prefix.clear();
  EXPECT_EQ(used(), 12u);
}

TEST_F(SequenceCacheTest, AFullLastPageIsNotCopied) {
  SequenceCache first(cache_, 1, 0, 100), second(cache_, 1, 0, 100);
  fund(first, 2 * place_bytes(cache_, 1));
  ASSERT_TRUE(first.prepare(rows_to(32, 1)));
  std::vector<PageTable> prefix;
  prefix.emplace_back(cache_, kFirstLoopGroup).share(first.table(kFirstLoopGroup), 2);
  second.share(prefix, 32);
  fund(second, place_bytes(cache_, 1));
  ASSERT_TRUE(second.prepare(
      {.first = 32, .end = 33, .prelude = false, .coda = false, .from_loop = 0, .to_loop = 1}));
  EXPECT_TRUE(second.copies().empty());
  EXPECT_EQ(second.pages(kFirstLoopGroup).size(), 3u);
}

TEST_F(SequenceCacheTest, ReservationsStopAtTheBudget) {
  const size_t half = cache_.budget() / 2;
  Reservation a, b, c;
  EXPECT_TRUE(a.try_take(cache_, half));
  EXPECT_FALSE(b.try_take(cache_, half + 1));
  EXPECT_TRUE(b.try_take(cache_, half));
  EXPECT_EQ(ledger_.report(memory_).cache_reserved, cache_.budget());
  c = a.split(half / 2);
  a.cancel();
  EXPECT_EQ(cache_.committed(), half + half / 2);
  b.absorb(std::move(c));
  b = {};
  EXPECT_EQ(cache_.committed(), 0u);
  EXPECT_THROW(cache_.cancel_reservation(1), tinyloop::base::Failure);
}

// A loan goes back to its lender, whatever the borrower has done with it meanwhile.
TEST_F(SequenceCacheTest, LoansReturn) {
  const auto lender = std::make_shared<Reservation>();
  const size_t bytes = 2 * cache_.page_bytes(kFirstLoopGroup);
  ASSERT_TRUE(lender->try_take(cache_, bytes));
  {
    SequenceCache sequence(cache_, 1, 0, 100);
    sequence.funding().borrow(lender, bytes);
    EXPECT_EQ(lender->bytes(), 0u);
    Funding other;
    other.borrow(lender, bytes);  // lent to somebody else
    EXPECT_EQ(other.pages.bytes(), 0u);
    ASSERT_TRUE(sequence.prepare(
        {.first = 0, .end = 20, .prelude = false, .coda = false, .from_loop = 0, .to_loop = 1}));
    EXPECT_EQ(sequence.funding().pages.bytes(), 0u);
  }
  EXPECT_EQ(lender->bytes(), bytes);
  EXPECT_EQ(cache_.committed(), bytes);
}

TEST(KvCache, GroupsWithoutLayersHaveNoPages) {
  kernels::CpuMemory memory;
  MemoryLedger ledger;
  KvCache cache(memory, ledger, LoopSchedule{0, 3, 0}, kLayout, 1 << 20);
  SequenceCache sequence(cache, 1, 0, 40);
  ASSERT_TRUE(sequence.funding().pages.try_take(cache, 3 * place_bytes(cache, 1)));
  ASSERT_TRUE(sequence.prepare(rows_to(40, 1)));
  EXPECT_TRUE(sequence.pages(kPreludeGroup).empty());
  EXPECT_TRUE(sequence.pages(kCodaGroup).empty());
  EXPECT_EQ(sequence.pages(kFirstLoopGroup).size(), 3u);
}

}  // namespace
}  // namespace tinyloop::engine
