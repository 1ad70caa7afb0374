// The cached prefixes of a replica: those that handles refer to by number, and those that only
// sequences in flight still use.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "engine/cached_prefix.h"

namespace tinyloop::engine {

struct HandleLimits {
  size_t count = 0;
  size_t bytes = 0;  // 0: no bound but the K/V budget's
};

// What stands above the limits.
struct HandleExcess {
  size_t count = 0;
  size_t bytes = 0;

  bool any() const { return count > 0 || bytes > 0; }
};

// Replica thread.
class PrefixStore {
 public:
  PrefixStore(KvCache& cache, kernels::DeviceMemory& memory, const PrefixSizes& sizes,
              const HandleLimits& limits)
      : cache_(cache), memory_(memory), sizes_(sizes), limits_(limits) {}

  const PrefixSizes& sizes() const { return sizes_; }  // any thread

  // An unfilled prefix, which the caller holds. Throws base::Failure: overloaded where the limits
  // have no room for it, out_of_memory where its bytes alone exceed them or the device has no
  // memory.
  CachedPrefixRef create(const PrefixShape& shape);
  // Lets a handle hold it, until drop(). Allocates nothing.
  void hold(const CachedPrefixRef& prefix);
  void drop(PrefixId id);
  void drop_all() noexcept;
  // With one more prefix of this shape.
  HandleExcess excess(const PrefixShape& shape) const;

  // What the next prefix will be called; may be set before there is any.
  PrefixId next_id() const { return next_id_; }
  void number_from(PrefixId first) { next_id_ = first; }

  // Null: it is gone.
  CachedPrefixRef find(PrefixId id) const;

 private:
  void check_limits(const PrefixShape& shape) const;
  size_t alive() const;
  size_t bytes_held() const;

  KvCache& cache_;
  kernels::DeviceMemory& memory_;
  const PrefixSizes sizes_;
  const HandleLimits limits_;
  PrefixId next_id_ = 1;
  struct Entry {
    std::weak_ptr<CachedPrefix> prefix;
    CachedPrefixRef held;
  };
  std::unordered_map<PrefixId, Entry> all_;
};

}  // namespace tinyloop::engine
