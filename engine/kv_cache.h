// The replica's K/V memory: a page pool for each kind of slot group, the byte budget that requests
// reserve from, and the figures of both in the ledger.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/loop_schedule.h"
#include "engine/memory_ledger.h"
#include "engine/page_pool.h"
#include "kernels/kv_page.h"

namespace tinyloop::engine {

// Group 0: prelude and coda layers. Group 1 + i: the shared layers of iteration i.
inline constexpr int32_t kOuterGroup = 0;

constexpr int32_t pages_for(int32_t positions) {
  return (positions + kernels::kPagePositions - 1) / kernels::kPagePositions;
}

class KvCache {
 public:
  KvCache(kernels::DeviceMemory& memory, MemoryLedger& ledger, const LoopSchedule& schedule,
          const kernels::KvLayout& layout, size_t budget_bytes);

  void release(int32_t group, int32_t page) { pool_of(group).release(page); }
  const PagePool& pool(int32_t group) const { return group == kOuterGroup ? outer_ : loop_; }
  const kernels::KvLayout& layout() const { return layout_; }
  // Does group 0 have layers at all? A plain `llama` file has none.
  bool has_outer() const { return outer_.page_bytes() > 0; }

  // Bytes of the pages that hold `pages` page places of every group at depth `loops`.
  size_t bytes(int32_t pages, int32_t loops) const;

  size_t budget() const { return budget_; }
  size_t reserved() const { return reserved_; }
  bool try_reserve(size_t bytes);
  void cancel_reservation(size_t bytes);

  // A page of the group's pool. Slabs without a page in use go back to the device before the arena
  // grows past the budget, and when the device has no more memory. kNoPage: it has none even then.
  int32_t acquire(int32_t group);
  size_t trim();
  // Brings the ledger up to date; called once after each change of pages.
  void publish();

 private:
  PagePool& pool_of(int32_t group) { return group == kOuterGroup ? outer_ : loop_; }
  size_t trim_slabs() { return outer_.trim() + loop_.trim(); }

  kernels::DeviceMemory& memory_;
  MemoryLedger& ledger_;
  kernels::KvLayout layout_;
  PagePool outer_;
  PagePool loop_;
  size_t budget_;
  size_t reserved_ = 0;
};

}  // namespace tinyloop::engine
