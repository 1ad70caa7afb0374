#include "engine/sequence_cache.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tinyloop::engine {

using kernels::kPagePositions;

SequenceCache::SequenceCache(KvCache& cache, int32_t loops, int32_t window, int32_t max_positions)
    : cache_(cache), window_(window) {
  tables_.reserve(size_t(kFirstLoopGroup + loops));
  for (int32_t group = 0; group < kFirstLoopGroup + loops; ++group) {
    tables_.emplace_back(cache, group).reserve(pages_for(max_positions));
  }
  copies_.reserve(tables_.size());
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

int32_t SequenceCache::entries_behind(int32_t next, int32_t window) {
  return window == 0 ? 0 : std::max(0, next - window + 1) / kPagePositions;
}

void SequenceCache::share(std::span<const PageTable> tables, int32_t positions) {
  for (const PageTable& from : tables) {
    if (from.group() >= int32_t(tables_.size())) continue;
    tables_[size_t(from.group())].share(from, pages_for(positions));
  }
}

template <class Visit>
bool SequenceCache::for_written(const WrittenRows& rows, Visit&& visit) {
  if (rows.prelude && !visit(tables_[kPreludeGroup])) return false;
  if (rows.coda && !visit(tables_[kCodaGroup])) return false;
  for (int32_t loop = rows.from_loop; loop < rows.to_loop; ++loop) {
    if (!visit(tables_[size_t(kFirstLoopGroup + loop)])) return false;
  }
  return true;
}

bool SequenceCache::fund(const WrittenRows& rows) {
  size_t bytes = 0;
  for_written(rows, [&](const PageTable& table) {
    const int32_t pages = table.missing(rows.first / kPagePositions, pages_for(rows.end));
    bytes += size_t(pages) * cache_.page_bytes(table.group());
    return true;
  });
  const size_t there = funding_.pages.bytes();
  return bytes <= there || funding_.pages.try_take(cache_, bytes - there);
}

bool SequenceCache::prepare(const WrittenRows& rows) {
  return for_written(rows, [&](PageTable& table) {
    return table.own(rows.first / kPagePositions, funding_.pages, copies_) &&
           table.grow(pages_for(rows.end), funding_.pages);
  });
}

void SequenceCache::slide(int32_t next) {
  for (PageTable& table : tables_) {
    table.release_before(entries_behind(next, window_), funding_.pages);
  }
}

void SequenceCache::drop_loops(int32_t loops) {
  for (size_t group = size_t(kFirstLoopGroup + loops); group < tables_.size(); ++group) {
    tables_[group].clear(funding_.pages);
  }
}

void SequenceCache::clear() {
  for (PageTable& table : tables_) table.clear(funding_.pages);
}

}  // namespace tinyloop::engine
