#include "engine/page_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tinyloop::engine {

PageTable::PageTable(PageTable&& other) noexcept
    : cache_(other.cache_),
      group_(other.group_),
      released_(std::exchange(other.released_, 0)),
      pages_(std::exchange(other.pages_, {})) {}

PageTable::~PageTable() {
  try {
    for (; released_ < size(); ++released_) cache_->release(group_, pages_[size_t(released_)]);
  } catch (const base::Failure&) {
  }
}

void PageTable::share(const PageTable& from, int32_t entries) {
  TINYLOOP_CHECK(pages_.empty() && from.group_ == group_);
  if (from.pages_.empty()) return;
  TINYLOOP_CHECK(entries <= from.size());
  pages_.assign(from.pages_.begin(), from.pages_.begin() + entries);
  released_ = std::min(from.released_, entries);
  for (int32_t i = released_; i < entries; ++i) cache_->retain(group_, pages_[size_t(i)]);
}

bool PageTable::grow(int32_t entries, Reservation& from) {
  if (cache_->page_bytes(group_) == 0) return true;
  while (size() < entries) {
    const int32_t page = from.acquire(group_);
    if (page == PagePool::kNoPage) return false;
    pages_.push_back(page);
  }
  return true;
}

int32_t PageTable::missing(int32_t entry, int32_t entries) const {
  if (cache_->page_bytes(group_) == 0) return 0;
  const bool copies = entry < size() && cache_->is_shared(group_, pages_[size_t(entry)]);
  return std::max(0, entries - size()) + (copies ? 1 : 0);
}

bool PageTable::own(int32_t entry, Reservation& from, std::vector<PageCopy>& copies) {
  if (entry >= size()) return true;
  int32_t& page = pages_[size_t(entry)];
  TINYLOOP_CHECK(page != PagePool::kNoPage);
  if (!cache_->is_shared(group_, page)) return true;
  copies.reserve(copies.size() + 1);
  const int32_t copy = from.acquire(group_);
  if (copy == PagePool::kNoPage) return false;
  copies.push_back({group_, page, copy});
  from.release(group_, std::exchange(page, copy));
  return true;
}

void PageTable::release_before(int32_t entry, Reservation& to) {
  for (; released_ < std::min(entry, size()); ++released_) {
    int32_t& page = pages_[size_t(released_)];
    to.release(group_, page);
    page = PagePool::kNoPage;
  }
}

void PageTable::clear(Reservation& to) {
  release_before(size(), to);
  pages_.clear();
  released_ = 0;
}

}  // namespace tinyloop::engine
