#include "engine/kv_cache.h"

#include "base/check.h"

namespace tinyloop::engine {

KvCache::KvCache(kernels::DeviceMemory& memory, MemoryLedger& ledger, const LoopSchedule& schedule,
                 const kernels::KvLayout& layout, size_t budget_bytes)
    : memory_(memory),
      ledger_(ledger),
      layout_(layout),
      outer_(memory, size_t(schedule.outer_layers()) * layout.layer_bytes()),
      loop_(memory, size_t(schedule.shared) * layout.layer_bytes()),
      budget_(budget_bytes) {
  ledger_.set_budget(budget_);
}

size_t KvCache::bytes(int32_t pages, int32_t loops) const {
  return size_t(pages) * (outer_.page_bytes() + size_t(loops) * loop_.page_bytes());
}

bool KvCache::try_reserve(size_t bytes) {
  if (bytes > budget_ - reserved_) return false;
  reserved_ += bytes;
  ledger_.set_reserved(reserved_);
  return true;
}

void KvCache::cancel_reservation(size_t bytes) {
  TINYLOOP_CHECK(bytes <= reserved_);
  reserved_ -= bytes;
  ledger_.set_reserved(reserved_);
}

int32_t KvCache::acquire(int32_t group) {
  PagePool& pool = pool_of(group);
  if (pool.free() == 0 && memory_.used(kernels::MemoryUse::arena) >= budget_) trim_slabs();
  const int32_t page = pool.acquire();
  if (page != PagePool::kNoPage || trim_slabs() == 0) return page;
  return pool.acquire();
}

size_t KvCache::trim() {
  const size_t bytes = trim_slabs();
  publish();
  return bytes;
}

void KvCache::publish() {
  const size_t outer = outer_.page_bytes(), loop = loop_.page_bytes();
  ledger_.set_pages(outer_.used() + loop_.used(), outer_.free() + loop_.free(),
                    outer_.used() * outer + loop_.used() * loop,
                    outer_.free() * outer + loop_.free() * loop);
}

}  // namespace tinyloop::engine
