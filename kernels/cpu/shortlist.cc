#include "kernels/cpu/shortlist.h"

#include <algorithm>
#include <functional>

#include "kernels/cpu/rank_search.h"

namespace tinyloop::kernels {

namespace {

// A logit that at least `count` tokens reach, as a rule not many more: so many blocks of the row
// have a token that does.
float reached_by(std::span<const float> row, size_t count) {
  constexpr size_t kMostBlocks = 8 * Shortlist::kMost;
  const size_t length = std::max(row.size() / kMostBlocks, size_t{16});
  std::array<float, kMostBlocks + 1> greatest;
  size_t blocks = 0;
  for (size_t from = 0; from < row.size() && blocks < greatest.size(); from += length) {
    greatest[blocks++] = greatest_usable(row.subspan(from, std::min(length, row.size() - from)));
  }
  if (blocks < count) return kLeastLogit;
  const auto nth = greatest.begin() + ptrdiff_t(count - 1);
  std::nth_element(greatest.begin(), nth, greatest.begin() + ptrdiff_t(blocks), std::greater<>());
  return *nth;
}

}  // namespace

Shortlist::Shortlist(std::span<const float> row, size_t count) {
  if (count == 0) return;
  if (!gather(row, reached_by(row, count))) gather_by_rank(row, count);
  const auto begin = ranks_.begin(), end = begin + ptrdiff_t(count);
  std::partial_sort(begin, end, begin + ptrdiff_t(count_), std::greater<>());
  count_ = count;
}

std::span<const uint64_t> Shortlist::finite_ranks() const {
  const auto finite = std::partition_point(ranks().begin(), ranks().end(),
                                           [](uint64_t rank) { return rank >= kFiniteOnes; });
  return ranks().first(size_t(finite - ranks().begin()));
}

// The tokens that reach `least`. False: they are too many.
bool Shortlist::gather(std::span<const float> row, float least) {
  count_ = 0;
  for (size_t t = 0; t < row.size(); ++t) {
    if (row[t] < least) continue;
    if (count_ == ranks_.size()) return false;
    ranks_[count_++] = rank_of(row[t], uint32_t(t));
  }
  return true;
}

// Exactly `count` of them: where many are alike.
void Shortlist::gather_by_rank(std::span<const float> row, size_t count) {
  const Beginning beginning(
      rank_at(row, kWholeRow, CountOne(), [=](uint64_t) { return uint64_t{count}; }));
  count_ = 0;
  for (size_t t = 0; t < row.size() && count_ < count; ++t) {
    if (beginning.has(row[t], t)) ranks_[count_++] = rank_of(row[t], uint32_t(t));
  }
}

}  // namespace tinyloop::kernels
