// The page tables of one sequence, one for each slot group it runs, and the budget they are paid
// from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/funding.h"
#include "engine/page_table.h"

namespace tinyloop::engine {

// What rows at positions [first, end) are about to write: prelude, coda, iterations [from_loop,
// to_loop).
struct WrittenRows {
  int32_t first = 0;
  int32_t end = 0;
  bool prelude = true;
  bool coda = true;
  int32_t from_loop = 0;
  int32_t to_loop = 0;
};

class SequenceCache {
 public:
  // `max_positions`: the most that prepare() will be asked for; the tables are reserved for it, so
  // that nothing is allocated on the host later. window: 0 = unbounded.
  SequenceCache(KvCache& cache, int32_t loops, int32_t window, int32_t max_positions);
  ~SequenceCache();
  SequenceCache(const SequenceCache&) = delete;
  SequenceCache& operator=(const SequenceCache&) = delete;

  // Pages of one group held at once, at most, by a sequence of `positions` positions whose rows
  // enter in chunks of at most `chunk_rows`: what admission reserves.
  static int32_t max_pages(int32_t positions, int32_t window, int32_t chunk_rows);
  // Entries that have slid out of the window when position `next` is the next one.
  static int32_t entries_behind(int32_t next, int32_t window);

  // Begins with positions 0 … positions − 1 of the groups that `tables` holds. Before prepare().
  void share(std::span<const PageTable> tables, int32_t positions);
  // Takes from the budget what funding() lacks for prepare(). False: there is not so much, and
  // nothing has changed.
  bool fund(const WrittenRows& rows);
  // Binds pages that only this sequence owns to what is written, paid from funding(). False: the
  // device has no more memory; what was bound stays.
  bool prepare(const WrittenRows& rows);
  // Copies of pages that prepare() asks for, to be carried out before the rows run.
  std::vector<PageCopy>& copies() { return copies_; }
  // Gives back pages that no position from `next` on can attend to.
  void slide(int32_t next);
  // Gives back the pages of all iterations from `loops` on.
  void drop_loops(int32_t loops);
  // Gives back every page; they stay reserved.
  void clear();

  // Pays for all pages.
  Funding& funding() { return funding_; }
  const PageTable& table(int32_t group) const { return tables_[size_t(group)]; }
  std::span<const int32_t> pages(int32_t group) const { return table(group).pages(); }

 private:
  // Calls visit(table) for the table of every group that the rows write; stops at a false.
  template <class Visit>
  bool for_written(const WrittenRows& rows, Visit&& visit);

  KvCache& cache_;
  int32_t window_;
  Funding funding_;
  std::vector<PageTable> tables_;  // by group
  std::vector<PageCopy> copies_;
};

}  // namespace tinyloop::engine
