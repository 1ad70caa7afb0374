// What a request needs of the K/V budget, in whole pages, known before it begins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/request.h"

namespace tinyloop::engine {

struct CacheDemand {
  size_t own = 0;       // bytes of pages that nobody else has, and of what it keeps reserved
  size_t lendable = 0;  // of which the capacity of the prefix that it resumes may pay for
  size_t base = 0;      // that the prefix holds which it begins with: as long as it runs

  // What the budget must have room for while it runs: more can not be had by waiting.
  size_t least_budget() const { return base + own - lendable; }
};

// `chunk_rows`: the most rows that a sequence has in flight. `positions`: how many it computes.
CacheDemand cache_demand(const SequenceRequest& request, const PrefixSizes& sizes,
                         int32_t chunk_rows, int32_t positions);

}  // namespace tinyloop::engine
