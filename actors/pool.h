// What copies of a PrefixPool share: its options, its figures, and which replica its prefixes live
// in. The prefixes themselves are the replica's thread's (actors/resident_pool.h).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "actors/lease.h"
#include "engine/prefix_index.h"
#include "tinyloop/prefix_pool.h"

namespace tinyloop::actors {

// What the replica's thread decided about a pool, in the order in which it did: for tests.
struct PoolEvent {
  enum class Kind : uint8_t {
    looked_up,  // a request: id and positions of the prefix it begins with; 0: none
    found,      // a registration: the prefix is there
    inserted,   // a prefix has come, others have gone
    yielded,    // a prefix has gone for want of K/V budget
    asked,      // prefix_info: positions 0: there is none
  };
  Kind kind = Kind::looked_up;
  engine::PrefixKey key{};
  std::vector<int32_t> tokens{};
  int32_t id = 0;
  int32_t positions = 0;
  std::vector<int32_t> evicted{};
  std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
};

// The part that the replica's thread writes and any thread reads; it outlives both.
struct PoolBook {
  explicit PoolBook(const PoolOptions& given) : options(given) {}

  const PoolOptions options;
  std::atomic<size_t> entries{0}, bytes{0};
  std::atomic<uint64_t> hits{0}, misses{0}, tokens_saved{0}, registered{0}, evicted{0};
  std::function<void(const PoolEvent&)> observer;  // set before the pool is used; empty: off
};

class Pool {
 public:
  explicit Pool(const PoolOptions& options) : book_(std::make_shared<PoolBook>(options)) {}

  const std::shared_ptr<PoolBook>& book() const noexcept { return book_; }
  // Any thread. The lease of the replica that the pool is bound to; null: to none so far. Throws
  // base::Failure, wrong_model: to another one than this.
  LeaseRef lease(const std::shared_ptr<Inbox>& inbox) const;
  // The same, and binds the pool if it is not.
  LeaseRef bind(const std::shared_ptr<Inbox>& inbox);

 private:
  const std::shared_ptr<PoolBook> book_;
  mutable std::mutex mutex_;  // guards what follows; held for moments only
  LeaseRef lease_;            // with the last copy, the replica lets go of the prefixes
};

}  // namespace tinyloop::actors
