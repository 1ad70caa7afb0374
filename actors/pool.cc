#include "actors/pool.h"

#include <boost/system/system_error.hpp>

#include "actors/error.h"
#include "actors/replica_group.h"

namespace tinyloop::actors {

Replica* Pool::home(const ReplicaGroup& group) const {
  const std::lock_guard lock(mutex_);
  check_model(group);
  return bound_home(group);
}

// With the lock.
Replica* Pool::bound_home(const ReplicaGroup& group) const {
  if (leases_.empty()) return nullptr;
  Replica* const replica = group.find(leases_.front()->inbox());
  return group.size() == 1 || replica->serves() ? replica : nullptr;
}

LeaseRef Pool::lease(const ReplicaGroup& group, const Replica& replica) const {
  const std::lock_guard lock(mutex_);
  check_model(group);
  return find(replica);
}

LeaseRef Pool::bind(const ReplicaGroup& group, const Replica& replica) {
  LeaseRef lease = Lease::make(replica.inbox());
  std::vector<LeaseRef> lost;  // dropped without the lock
  const std::lock_guard lock(mutex_);
  check_model(group);
  if (LeaseRef found = find(replica)) return found;
  if (!book_->options.automatic) {
    if (bound_home(group)) return leases_.front();
    lost.swap(leases_);
  }
  leases_.push_back(lease);
  return lease;
}

void Pool::check_model(const ReplicaGroup& group) const {
  if (leases_.empty() || group.find(leases_.front()->inbox())) return;
  throw base::Failure(errc::wrong_model, "the pool holds prefixes of another model");
}

LeaseRef Pool::find(const Replica& replica) const {
  for (const LeaseRef& lease : leases_)
    if (lease->inbox() == replica.inbox()) return lease;
  return nullptr;
}

}  // namespace tinyloop::actors

namespace tinyloop {

PrefixPool::PrefixPool(const PoolOptions& options) {
  if (options.capacity == 0) {
    throw boost::system::system_error(
        actors::make_error(errc::invalid_argument, "capacity: 0, allowed: 1 or more"));
  }
  ref_ = std::make_shared<actors::Pool>(options);
}

PoolStatistics PrefixPool::statistics() const noexcept {
  if (!ref_) return {};
  const actors::PoolBook& book = *ref_->book();
  return {.entries = book.entries.load(),
          .bytes = book.bytes.load(),
          .hits = book.hits.load(),
          .misses = book.misses.load(),
          .tokens_saved = book.tokens_saved.load(),
          .registered = book.registered.load(),
          .evicted = book.evicted.load()};
}

}  // namespace tinyloop
