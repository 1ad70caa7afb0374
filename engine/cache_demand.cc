#include "engine/cache_demand.h"

#include <algorithm>

namespace tinyloop::engine {

namespace {

class Demand {
 public:
  Demand(const SequenceRequest& request, const PrefixSizes& sizes, int32_t chunk_rows,
         int32_t positions)
      : request_(request), sizes_(sizes), chunk_rows_(chunk_rows), positions_(positions) {}

  CacheDemand fresh() const {
    // A snapshot behind the loop is all that such a prefix wants of its rows.
    const size_t unused = keeps(PrefixState::loop_rows) ? sizes_.coda_page : 0;
    const size_t place = sizes_.place(request_.loops) - unused;
    return {.own = places(positions_) * place + kept()};
  }

  // Pages behind the shared ones, and a copy of the last shared page where it is not full.
  CacheDemand shared() const { return {.own = tail() * sizes_.place(request_.loops) + kept()}; }

  // The prefix anew in the coda and in the iterations that it has not run yet; the rest as in
  // shared().
  CacheDemand resumed() const {
    const int32_t behind = request_.base->shape().loops;
    const size_t prelude = sizes_.prelude_page, coda = sizes_.coda_page, loop = sizes_.loop_page;
    const size_t prefix = places(request_.base_positions), all = places(positions_);
    const auto deeper = size_t(std::max(0, request_.loops - behind));
    const auto below = size_t(std::min(request_.loops, behind));
    const size_t prefix_alone =
        size_t(std::max(0, request_.base_loops - std::max(request_.loops, behind)));
    const bool runs_coda = !keeps(PrefixState::loop_rows);
    const size_t lendable =
        prefix * ((runs_coda ? coda : 0) + size_t(request_.base_loops - behind) * loop);
    size_t own = prefix * prefix_alone * loop + all * deeper * loop + (runs_coda ? all * coda : 0);
    if (request_.kind == SequenceKind::generate) own += tail() * (prelude + below * loop);
    return {.own = own + kept(),
            .lendable = request_.kind == SequenceKind::generate ? lendable : 0};
  }

 private:
  size_t places(int32_t positions) const {
    return size_t(SequenceCache::max_pages(positions, request_.window, chunk_rows_));
  }

  // Places that are written behind what it shares, and how many of them are held at once.
  size_t written() const {
    if (positions_ == request_.base_positions) return 0;
    const int32_t shared = request_.base_positions / kernels::kPagePositions;
    return size_t(pages_for(positions_) - shared);
  }
  size_t tail() const { return std::min(written(), places(positions_)); }

  bool keeps(PrefixState state) const { return request_.keep && request_.keep->state == state; }

  // A kept prefix shares its pages with the sequence, which copies the last one if it goes on.
  size_t kept() const {
    if (!request_.keep) return 0;
    const PrefixShape shape = request_.kept_shape();
    if (shape.resumes()) return sizes_.bytes_of(shape).capacity;
    if (request_.kind != SequenceKind::generate) return 0;
    // Those that slide out of the window while the prefix holds them bring nothing back.
    return std::min(size_t(shape.places()), written() + 1 - tail()) * sizes_.place(request_.loops);
  }

  const SequenceRequest& request_;
  const PrefixSizes& sizes_;
  const int32_t chunk_rows_;
  const int32_t positions_;
};

}  // namespace

CacheDemand cache_demand(const SequenceRequest& request, const PrefixSizes& sizes,
                         int32_t chunk_rows, int32_t positions) {
  const Demand demand(request, sizes, chunk_rows, positions);
  if (!request.base) return demand.fresh();
  CacheDemand result = request.resumes() ? demand.resumed() : demand.shared();
  const PrefixBytes base = sizes.bytes_of(request.base->shape());
  result.base = base.pages + base.capacity;
  return result;
}

}  // namespace tinyloop::engine
