#include "engine/kv_cache.h"

#include "base/check.h"

namespace tinyloop::engine {

KvCache::KvCache(kernels::DeviceMemory& memory, MemoryLedger& ledger, const LoopSchedule& schedule,
                 const kernels::KvLayout& layout, size_t budget_bytes)
    : memory_(memory),
      ledger_(ledger),
      layout_(layout),
      pools_{PagePool(memory, size_t(schedule.prelude) * layout.layer_bytes()),
             PagePool(memory, size_t(schedule.coda) * layout.layer_bytes()),
             PagePool(memory, size_t(schedule.shared) * layout.layer_bytes())},
      budget_(budget_bytes) {
  ledger_.set_budget(budget_);
}

int32_t KvCache::acquire(int32_t group) {
  PagePool& pool = pool_of(group);
  if (pool.free() == 0 && memory_.used(kernels::MemoryUse::arena) >= budget_) trim_slabs();
  const int32_t page = pool.acquire();
  if (page != PagePool::kNoPage || trim_slabs() == 0) return page;
  return pool.acquire();
}

bool KvCache::release(int32_t group, int32_t page) {
  PagePool& pool = pool_of(group);
  pool.release(page);
  return pool.references(page) == 0;
}

bool KvCache::try_reserve(size_t bytes) {
  TINYLOOP_CHECK(committed() <= budget_);
  if (bytes > budget_ - committed()) return false;
  reserved_ += bytes;
  publish();
  return true;
}

void KvCache::cancel_reservation(size_t bytes) {
  TINYLOOP_CHECK(bytes <= reserved_);
  reserved_ -= bytes;
  publish();
}

void KvCache::bind_reserved(size_t bytes) {
  TINYLOOP_CHECK(bytes <= reserved_);
  reserved_ -= bytes;
}

size_t KvCache::used_bytes() const {
  size_t bytes = 0;
  for (const PagePool& pool : pools_) bytes += pool.used() * pool.page_bytes();
  return bytes;
}

size_t KvCache::trim_slabs() {
  size_t bytes = 0;
  for (PagePool& pool : pools_) bytes += pool.trim();
  return bytes;
}

size_t KvCache::trim() {
  const size_t bytes = trim_slabs();
  publish();
  return bytes;
}

void KvCache::publish() {
  size_t used = 0, free = 0, free_bytes = 0;
  for (const PagePool& pool : pools_) {
    used += pool.used();
    free += pool.free();
    free_bytes += pool.free() * pool.page_bytes();
  }
  ledger_.set_pages(used, free, used_bytes(), free_bytes);
  ledger_.set_reserved(committed());
}

}  // namespace tinyloop::engine
