#include "engine/reservation.h"

#include "base/check.h"

namespace tinyloop::engine {

Reservation::~Reservation() {
  try {
    cancel();
  } catch (const base::Failure&) {
  }
}

bool Reservation::try_take(KvCache& cache, size_t bytes) {
  TINYLOOP_CHECK(!cache_ || cache_ == &cache);
  if (!cache.try_reserve(bytes)) return false;
  cache_ = &cache;
  bytes_ += bytes;
  return true;
}

int32_t Reservation::acquire(int32_t group) {
  TINYLOOP_CHECK(cache_ && bytes_ >= cache_->page_bytes(group));
  const int32_t page = cache_->acquire(group);
  if (page == PagePool::kNoPage) return page;
  const size_t bytes = cache_->page_bytes(group);
  cache_->bind_reserved(bytes);
  bytes_ -= bytes;
  return page;
}

void Reservation::release(int32_t group, int32_t page) {
  TINYLOOP_CHECK(cache_);
  if (!cache_->release(group, page)) return;
  const size_t bytes = cache_->page_bytes(group);
  cache_->unbind_reserved(bytes);
  bytes_ += bytes;
}

Reservation Reservation::split(size_t bytes) {
  TINYLOOP_CHECK(bytes <= bytes_);
  Reservation part;
  part.cache_ = cache_;
  part.bytes_ = bytes;
  bytes_ -= bytes;
  return part;
}

void Reservation::absorb(Reservation other) {
  TINYLOOP_CHECK(!cache_ || !other.cache_ || cache_ == other.cache_);
  if (!cache_) cache_ = other.cache_;
  bytes_ += std::exchange(other.bytes_, 0);
}

void Reservation::cancel() {
  if (cache_ && bytes_ > 0) cache_->cancel_reservation(std::exchange(bytes_, 0));
}

}  // namespace tinyloop::engine
