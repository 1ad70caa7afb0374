// What copies of a PrefixPool share: its options, its figures, and which replicas its prefixes live
// in: an automatic pool's in all of a model, any other's in one. The prefixes themselves are the
// replica's thread's (actors/resident_pool.h).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "actors/lease.h"
#include "actors/residence.h"
#include "engine/prefix_index.h"
#include "tinyloop/prefix_pool.h"

namespace tinyloop::actors {

class Replica;
class ReplicaGroup;

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

// The part that the replicas' threads write and any thread reads; it outlives both.
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
  // Any thread, all of them. Those with a group throw base::Failure, wrong_model, where the pool
  // holds prefixes of another model.

  // The replica of all prefixes, where that is one; null: there are none so far, or they are lost,
  // for it does not serve any more. Of a model of one replica, that one.
  Replica* home(const ReplicaGroup& group) const;
  // What requests to the replica hold while they use the pool; null: it has never been bound there.
  LeaseRef lease(const ReplicaGroup& group, const Replica& replica) const;
  // The same, and binds the pool: an automatic one to one more replica, any other to this one
  // alone, unless another thread has just given it a home elsewhere: then the lease is of that one.
  LeaseRef bind(const ReplicaGroup& group, const Replica& replica);
  Residence& residence() noexcept { return residence_; }

 private:
  void check_model(const ReplicaGroup& group) const;
  Replica* bound_home(const ReplicaGroup& group) const;
  LeaseRef find(const Replica& replica) const;

  const std::shared_ptr<PoolBook> book_;
  Residence residence_;
  mutable std::mutex mutex_;      // guards what follows; held for moments only
  std::vector<LeaseRef> leases_;  // with the last copy, a replica lets go of the prefixes
};

}  // namespace tinyloop::actors
