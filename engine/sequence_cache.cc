#include "engine/sequence_cache.h"

#include <algorithm>

#include "base/error.h"

namespace tinyloop::engine {

using kernels::kPagePositions;

SequenceCache::SequenceCache(KvCache& cache, int32_t loops, int32_t window, int32_t max_positions)
    : cache_(cache), window_(window), tables_(size_t(loops) + 1) {
  for (auto& table : tables_) table.reserve(size_t(pages_for(max_positions)));
}

// A broken count of references is a bug that fails the replica elsewhere; here it must not end the
// process.
SequenceCache::~SequenceCache() {
  try {
    clear();
  } catch (const base::Failure&) {
  }
}

int32_t SequenceCache::max_pages(int32_t positions, int32_t window, int32_t chunk_rows) {
  const int32_t all = pages_for(positions);
  if (window == 0) return all;
  // The window before a chunk's first row, and the chunk itself, may each begin in mid-page.
  return int32_t(std::min<int64_t>(all, (int64_t{window} + chunk_rows) / kPagePositions + 2));
}

bool SequenceCache::extend(int32_t positions) {
  const int32_t before = pages_;
  while (pages_ < pages_for(positions)) {
    for (int32_t group = first_group(); group < int32_t(tables_.size()); ++group) {
      const int32_t page = cache_.acquire(group);
      if (page == PagePool::kNoPage) {
        shrink(before);
        return false;
      }
      tables_[size_t(group)].push_back(page);
    }
    ++pages_;
  }
  return true;
}

void SequenceCache::slide(int32_t next) {
  if (window_ == 0) return;
  const int32_t keep_from = std::max(0, next - window_ + 1) / kPagePositions;
  for (; released_ < std::min(keep_from, pages_); ++released_) {
    for (int32_t group = first_group(); group < int32_t(tables_.size()); ++group) {
      int32_t& entry = tables_[size_t(group)][size_t(released_)];
      cache_.release(group, entry);
      entry = PagePool::kNoPage;
    }
  }
}

// Drops the pages after the first `pages` ones; tables may differ in length by one while extend()
// is under way.
void SequenceCache::shrink(int32_t pages) {
  for (int32_t group = first_group(); group < int32_t(tables_.size()); ++group) {
    auto& table = tables_[size_t(group)];
    while (int32_t(table.size()) > pages) {
      cache_.release(group, table.back());
      table.pop_back();
    }
  }
  pages_ = pages;
}

}  // namespace tinyloop::engine
