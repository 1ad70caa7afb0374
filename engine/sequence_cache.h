// The page tables of one sequence: for each slot group, which physical page holds positions
// 16·k … 16·k + 15.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv_cache.h"

namespace tinyloop::engine {

class SequenceCache {
 public:
  // `max_positions`: the most that extend() will be asked for; the tables are reserved for it, so
  // that nothing is allocated on the host later. window: 0 = unbounded.
  SequenceCache(KvCache& cache, int32_t loops, int32_t window, int32_t max_positions);
  ~SequenceCache();
  SequenceCache(const SequenceCache&) = delete;
  SequenceCache& operator=(const SequenceCache&) = delete;

  // Pages held at once, at most, by a sequence of `positions` positions whose rows enter in chunks
  // of at most `chunk_rows`: what admission reserves.
  static int32_t max_pages(int32_t positions, int32_t window, int32_t chunk_rows);

  // Binds pages for positions up to `positions` − 1 in every group. false: the device has no more
  // memory; the tables are as they were.
  bool extend(int32_t positions);
  // Gives back pages that no position from `next` on can attend to.
  void slide(int32_t next);
  // Gives back every page.
  void clear() { shrink(released_); }

  // Entries of released pages are PagePool::kNoPage. Group 0 is empty where the model has no outer
  // layers.
  std::span<const int32_t> table(int32_t group) const { return tables_[size_t(group)]; }

 private:
  int32_t first_group() const { return cache_.has_outer() ? kOuterGroup : kOuterGroup + 1; }
  void shrink(int32_t pages);

  KvCache& cache_;
  int32_t window_;
  int32_t pages_ = 0;     // entries of each table
  int32_t released_ = 0;  // of which the first ones have been given back
  std::vector<std::vector<int32_t>> tables_;
};

}  // namespace tinyloop::engine
