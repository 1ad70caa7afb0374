// A pool of prefixes: requests that name it begin with the longest one that their prompt begins
// with. docs/reuse.md has an example and the figures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tinyloop/detail/export.h"

namespace tinyloop {

namespace actors {
class Pool;
}

namespace detail {
using PoolRef = std::shared_ptr<actors::Pool>;
}

struct PoolOptions {
  size_t capacity = 16;  // >= 1 prefixes; beyond, the least recently used go
  size_t capacity_bytes =
      0;  // of all prefixes together, shared pages counted for each; 0: no bound
  // Registers the prompt of each request that names the pool, once it has been computed.
  bool automatic = false;
};

// One prefix of a pool. `live` false: there is none of that id, or not any more.
struct PoolEntryInfo {
  bool live = false;
  int32_t positions = 0;
  int32_t loops = 0;
  int32_t cache_window = 0;
  size_t bytes = 0;
  uint64_t hits = 0;  // requests it has served, and registrations that found it there
};

struct PoolStatistics {
  size_t entries = 0;
  size_t bytes = 0;
  uint64_t hits = 0;          // requests that began with a prefix of the pool
  uint64_t misses = 0;        // requests that found none
  uint64_t tokens_saved = 0;  // prompt positions that were not computed again
  uint64_t registered = 0;    // prefixes that came into the pool
  uint64_t evicted = 0;
};

// A reference to a pool; copies refer to the same one. From the first registration on the pool is
// that model's, and another one gets wrong_model. Of several replicas of a model an automatic pool
// has prefixes in all, within its bounds in each; any other pool is in one, and its requests go
// there (docs/replicas.md). With the last reference, and the last request that uses it, the
// prefixes are given back. Where the K/V budget has no room for a request, prefixes give way to it,
// the least recently used first. Threads: as ReuseHandle (tinyloop/reuse.h).
class TINYLOOP_API PrefixPool {
 public:
  PrefixPool() = default;  // empty: no pool
  // Throws boost::system::system_error, invalid_argument: capacity 0.
  explicit PrefixPool(const PoolOptions& options);

  explicit operator bool() const noexcept { return ref_ != nullptr; }
  // A snapshot; of an empty reference, zeros.
  PoolStatistics statistics() const noexcept;

  // For the library's own parts.
  const detail::PoolRef& ref() const noexcept { return ref_; }

 private:
  detail::PoolRef ref_;
};

}  // namespace tinyloop
