#include "engine/cache_demand.h"

#include <algorithm>

namespace tinyloop::engine {

namespace {

class Demand {
 public:
  Demand(const SequenceRequest& request, const KvCache& cache, int32_t chunk_rows)
      : request_(request), cache_(cache), chunk_rows_(chunk_rows) {}

  CacheDemand fresh() const {
    return {places(request_.max_positions()) * cache_.place_bytes(request_.loops) + kept(), 0};
  }

  // Pages behind the shared ones, and a copy of the last shared page where it is not full.
  CacheDemand shared() const { return {tail() * cache_.place_bytes(request_.loops) + kept(), 0}; }

  // The prefix anew in the coda and in the iterations that it has not run yet; the rest as in
  // shared().
  CacheDemand resumed() const {
    const int32_t behind = request_.base->shape().loops;
    const size_t prelude = cache_.page_bytes(kPreludeGroup), coda = cache_.page_bytes(kCodaGroup);
    const size_t loop = cache_.page_bytes(kFirstLoopGroup);
    const size_t prefix = places(request_.base_positions), all = places(request_.max_positions());
    const auto deeper = size_t(std::max(0, request_.loops - behind));
    const auto below = size_t(std::min(request_.loops, behind));
    const size_t prefix_alone =
        size_t(std::max(0, request_.base_loops - std::max(request_.loops, behind)));
    const bool runs_coda = !keeps(PrefixState::loop_rows);
    const size_t lendable =
        prefix * ((runs_coda ? coda : 0) + size_t(request_.base_loops - behind) * loop);
    size_t own = prefix * prefix_alone * loop + all * deeper * loop + (runs_coda ? all * coda : 0);
    if (request_.kind == SequenceKind::generate) own += tail() * (prelude + below * loop);
    return {own + kept(), request_.kind == SequenceKind::generate ? lendable : 0};
  }

 private:
  size_t places(int32_t positions) const {
    return size_t(SequenceCache::max_pages(positions, request_.window, chunk_rows_));
  }

  size_t tail() const {
    const int32_t shared = request_.base_positions / kernels::kPagePositions;
    const auto behind = size_t(pages_for(request_.max_positions()) - shared);
    return std::min(behind, places(request_.max_positions()));
  }

  bool keeps(PrefixState state) const { return request_.keep && request_.keep->state == state; }

  // A kept prefix shares its pages with the sequence, which copies the last one if it goes on.
  size_t kept() const {
    if (keeps(PrefixState::loop_rows)) {
      const size_t coda = cache_.page_bytes(kCodaGroup), loop = cache_.page_bytes(kFirstLoopGroup);
      const auto further = size_t(request_.keep->max_loops - request_.most_loops());
      return size_t(pages_for(int32_t(request_.tokens.size()))) * (coda + further * loop);
    }
    const bool goes_on = request_.keep && request_.kind == SequenceKind::generate;
    return goes_on ? cache_.place_bytes(request_.loops) : 0;
  }

  const SequenceRequest& request_;
  const KvCache& cache_;
  const int32_t chunk_rows_;
};

}  // namespace

CacheDemand cache_demand(const SequenceRequest& request, const KvCache& cache, int32_t chunk_rows) {
  const Demand demand(request, cache, chunk_rows);
  if (!request.base) return demand.fresh();
  return request.resumes() ? demand.resumed() : demand.shared();
}

}  // namespace tinyloop::engine
