#include "engine/cache_demand.h"

#include <algorithm>

namespace tinyloop::engine {

namespace {

class Demand {
 public:
  Demand(const SequenceRequest& request, const KvCache& cache, int32_t chunk_rows)
      : request_(request), cache_(cache), chunk_rows_(chunk_rows) {}

  CacheDemand fresh() const {
    // A snapshot behind the loop is all that such a prefix wants of its rows.
    const size_t unused = keeps(PrefixState::loop_rows) ? cache_.page_bytes(kCodaGroup) : 0;
    const size_t place = cache_.place_bytes(request_.loops) - unused;
    return {.own = places(request_.max_positions()) * place + kept()};
  }

  // Pages behind the shared ones, and a copy of the last shared page where it is not full.
  CacheDemand shared() const {
    return {.own = tail() * cache_.place_bytes(request_.loops) + kept()};
  }

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
    return {.own = own + kept(),
            .lendable = request_.kind == SequenceKind::generate ? lendable : 0};
  }

 private:
  size_t places(int32_t positions) const {
    return size_t(SequenceCache::max_pages(positions, request_.window, chunk_rows_));
  }

  // Places that are written behind what it shares, and how many of them are held at once.
  size_t written() const {
    if (request_.max_positions() == request_.base_positions) return 0;
    const int32_t shared = request_.base_positions / kernels::kPagePositions;
    return size_t(pages_for(request_.max_positions()) - shared);
  }
  size_t tail() const { return std::min(written(), places(request_.max_positions())); }

  bool keeps(PrefixState state) const { return request_.keep && request_.keep->state == state; }

  // A kept prefix shares its pages with the sequence, which copies the last one if it goes on.
  size_t kept() const {
    if (keeps(PrefixState::loop_rows)) {
      const size_t coda = cache_.page_bytes(kCodaGroup), loop = cache_.page_bytes(kFirstLoopGroup);
      const auto further = size_t(request_.keep->max_loops - request_.most_loops());
      return size_t(pages_for(int32_t(request_.tokens.size()))) * (coda + further * loop);
    }
    if (!request_.keep || request_.kind != SequenceKind::generate) return 0;
    // Those that slide out of the window while the prefix holds them bring nothing back.
    const auto length = int32_t(request_.tokens.size());
    const int32_t held = pages_for(length) - SequenceCache::entries_behind(length, request_.window);
    return std::min(size_t(held), written() + 1 - tail()) * cache_.place_bytes(request_.loops);
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
