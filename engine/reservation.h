// A share of the K/V budget that belongs to one owner: bytes promised to it and not yet bound to
// pages. Pages it takes are paid from here, and flow back when it was their last owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/kv_cache.h"

namespace tinyloop::engine {

// Replica thread. Movable; empty after a move.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : cache_(std::exchange(other.cache_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept {
    Reservation moved(std::move(other));
    std::swap(cache_, moved.cache_);
    std::swap(bytes_, moved.bytes_);
    return *this;
  }
  // Like cancel(), save that the process does not end where the counts are broken.
  ~Reservation();

  // Takes `bytes` from the budget. False: there are not so many, and nothing has changed.
  bool try_take(KvCache& cache, size_t bytes);
  size_t bytes() const { return bytes_; }

  // A page of the group, paid from here. kNoPage: the device has no memory; nothing has changed.
  // The reservation must hold a page's bytes.
  int32_t acquire(int32_t group);
  // Drops a reference; if it was the last one, the page's bytes are reserved here again.
  void release(int32_t group, int32_t page);

  // Moves bytes between reservations of one cache.
  Reservation split(size_t bytes);
  void absorb(Reservation other);
  // Gives everything back to the budget.
  void cancel();

 private:
  KvCache* cache_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tinyloop::engine
