#include "actors/pool.h"

#include <boost/system/system_error.hpp>

#include "actors/error.h"
#include "actors/inbox.h"

namespace tinyloop::actors {

namespace {

void check_bound(const LeaseRef& lease, const std::shared_ptr<Inbox>& inbox) {
  if (!lease || lease->inbox() == inbox) return;
  throw base::Failure(errc::wrong_model, "the pool holds prefixes of another model");
}

}  // namespace

LeaseRef Pool::lease(const std::shared_ptr<Inbox>& inbox) const {
  const std::lock_guard lock(mutex_);
  check_bound(lease_, inbox);
  return lease_;
}

LeaseRef Pool::bind(const std::shared_ptr<Inbox>& inbox) {
  const std::lock_guard lock(mutex_);
  check_bound(lease_, inbox);
  if (!lease_) lease_ = Lease::make(inbox);
  return lease_;
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
