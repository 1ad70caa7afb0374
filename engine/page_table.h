// The pages of one slot group that a sequence or a cached prefix refers to: entry k holds positions
// 16·k … 16·k + 15. Pages may have several owners; who writes sees to it first that a page is its
// own (copy on write).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/reservation.h"

namespace tinyloop::engine {

// A page to be copied before anything of a pass runs: its copy is about to be written.
struct PageCopy {
  int32_t group = 0;
  int32_t from = 0;
  int32_t to = 0;

  bool operator==(const PageCopy&) const = default;
};

class PageTable {
 public:
  PageTable(KvCache& cache, int32_t group) : cache_(&cache), group_(group) {}
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&&) = delete;
  // Drops what is left; the process does not end where the counts are broken.
  ~PageTable();

  int32_t group() const { return group_; }
  // Entries of released pages are PagePool::kNoPage. Empty for a group without layers.
  std::span<const int32_t> pages() const { return pages_; }
  int32_t size() const { return int32_t(pages_.size()); }
  // Entries that still hold a page.
  int32_t held() const { return size() - released_; }

  // Host memory for that many entries: nothing is allocated there up to them.
  void reserve(int32_t entries) { pages_.reserve(size_t(entries)); }
  // Takes part in the first `entries` pages of another table of the group. This one is empty.
  void share(const PageTable& from, int32_t entries);
  // Appends pages until there are `entries`. False: the device has no more memory; what was taken
  // stays.
  bool grow(int32_t entries, Reservation& from);
  // Pages that own(entry) and grow(entries) would take.
  int32_t missing(int32_t entry, int32_t entries) const;
  // Makes the page at `entry` this table's alone: where it has other owners, by a new page, which
  // `copies` says how to fill. False: as in grow().
  bool own(int32_t entry, Reservation& from, std::vector<PageCopy>& copies);
  // Drops the pages before `entry`, which nobody can attend to any more.
  void release_before(int32_t entry, Reservation& to);
  void clear(Reservation& to);

 private:
  KvCache* cache_;
  int32_t group_;
  int32_t released_ = 0;  // the first entries, whose pages have been dropped
  std::vector<int32_t> pages_;
};

}  // namespace tinyloop::engine
