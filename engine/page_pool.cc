#include "engine/page_pool.h"

#include <algorithm>

#include "base/check.h"

namespace tinyloop::engine {

PagePool::PagePool(kernels::DeviceMemory& memory, size_t page_bytes)
    : memory_(memory),
      page_bytes_(page_bytes),
      pages_per_slab_(page_bytes == 0 ? 0 : std::max<size_t>(1, kSlabBytes / page_bytes)) {}

int32_t PagePool::acquire() {
  TINYLOOP_CHECK(page_bytes_ > 0);
  if (free_.empty() && !grow()) return kNoPage;
  const int32_t page = free_.back();
  free_.pop_back();
  references_[size_t(page)] = 1;
  ++used_;
  return page;
}

void PagePool::retain(int32_t page) {
  TINYLOOP_CHECK(references_[size_t(page)] > 0);
  ++references_[size_t(page)];
}

void PagePool::release(int32_t page) {
  TINYLOOP_CHECK(references_[size_t(page)] > 0);
  if (--references_[size_t(page)] > 0) return;
  free_.push_back(page);
  --used_;
}

std::byte* PagePool::address(int32_t page) const {
  const size_t slab = size_t(page) / pages_per_slab_;
  return slabs_[slab].data() + (size_t(page) % pages_per_slab_) * page_bytes_;
}

bool PagePool::grow() {
  kernels::DeviceBuffer slab(memory_, pages_per_slab_ * page_bytes_, kernels::MemoryUse::arena);
  if (!slab) return false;
  auto place = std::find_if(slabs_.begin(), slabs_.end(), [](const auto& s) { return !s; });
  const auto index = size_t(place - slabs_.begin());
  if (place == slabs_.end()) {
    slabs_.emplace_back();
    references_.resize(slabs_.size() * pages_per_slab_, 0);
    free_.reserve(references_.size());
  }
  slabs_[index] = std::move(slab);
  for (size_t i = pages_per_slab_; i-- > 0;) {
    free_.push_back(int32_t(index * pages_per_slab_ + i));
  }
  return true;
}

size_t PagePool::trim() {
  size_t bytes = 0;
  for (size_t slab = 0; slab < slabs_.size(); ++slab) {
    if (!slabs_[slab]) continue;
    const size_t first = slab * pages_per_slab_, last = first + pages_per_slab_;
    const bool idle =
        std::all_of(references_.begin() + ptrdiff_t(first), references_.begin() + ptrdiff_t(last),
                    [](int32_t count) { return count == 0; });
    if (!idle) continue;
    std::erase_if(free_,
                  [&](int32_t page) { return size_t(page) >= first && size_t(page) < last; });
    bytes += slabs_[slab].bytes();
    slabs_[slab] = {};
  }
  return bytes;
}

}  // namespace tinyloop::engine
