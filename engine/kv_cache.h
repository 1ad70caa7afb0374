// The replica's K/V memory: a page pool for each kind of slot group, the byte budget, and the
// figures of both in the ledger.
//
// The budget is spent twice over: a request first reserves its worst case, and what it reserved
// becomes pages one by one (engine/reservation.h). Pages that several owners share count once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/loop_schedule.h"
#include "engine/memory_ledger.h"
#include "engine/page_pool.h"
#include "kernels/kv_page.h"

namespace tinyloop::engine {

// Slot groups: layers whose K/V is computed together for a row, and so shares pages. What a deeper
// iteration computes leaves prelude and earlier iterations as they are, but not the coda.
inline constexpr int32_t kPreludeGroup = 0;
inline constexpr int32_t kCodaGroup = 1;
inline constexpr int32_t kFirstLoopGroup = 2;  // + i: the shared layers of iteration i

// Pages of one pool are alike; groups of one kind draw from one pool.
enum class PageKind : uint8_t { prelude, coda, loop };
inline constexpr size_t kPageKinds = 3;

constexpr PageKind kind_of(int32_t group) {
  return group >= kFirstLoopGroup ? PageKind::loop : PageKind(group);
}

constexpr int32_t pages_for(int32_t positions) {
  return (positions + kernels::kPagePositions - 1) / kernels::kPagePositions;
}

class KvCache {
 public:
  KvCache(kernels::DeviceMemory& memory, MemoryLedger& ledger, const LoopSchedule& schedule,
          const kernels::KvLayout& layout, size_t budget_bytes);

  const PagePool& pool(PageKind kind) const { return pools_[size_t(kind)]; }
  const kernels::KvLayout& layout() const { return layout_; }
  // Bytes of a page of the group; 0: the group has no layers, and no pages.
  size_t page_bytes(int32_t group) const { return pool(kind_of(group)).page_bytes(); }

  // A page of the group's pool with one reference. Slabs without a page in use go back to the
  // device before the arena grows past the budget, and when the device has no more memory. kNoPage:
  // it has none even then.
  int32_t acquire(int32_t group);
  void retain(int32_t group, int32_t page) { pool_of(group).retain(page); }
  // Whether that was the last reference.
  bool release(int32_t group, int32_t page);
  bool is_shared(int32_t group, int32_t page) const {
    return pool(kind_of(group)).references(page) > 1;
  }

  size_t budget() const { return budget_; }
  // Bytes reserved and not yet bound to pages, and bytes of pages in use.
  size_t committed() const { return reserved_ + used_bytes(); }
  bool try_reserve(size_t bytes);
  void cancel_reservation(size_t bytes);
  // A reservation has become a page, or a page a reservation.
  void bind_reserved(size_t bytes);
  void unbind_reserved(size_t bytes) { reserved_ += bytes; }

  size_t trim();
  // Brings the ledger up to date; called once after each change of pages or reservations.
  void publish();

 private:
  PagePool& pool_of(int32_t group) { return pools_[size_t(kind_of(group))]; }
  size_t used_bytes() const;
  size_t trim_slabs();

  kernels::DeviceMemory& memory_;
  MemoryLedger& ledger_;
  kernels::KvLayout layout_;
  std::array<PagePool, kPageKinds> pools_;  // by PageKind
  size_t budget_;
  size_t reserved_ = 0;
};

}  // namespace tinyloop::engine
