// What all threads of a soak share: the model, the script, the pools, and what may be expected of
// the replicas at the moment.
#pragma once

#include <array>
#include <atomic>
#include <barrier>
#include <mutex>
#include <utility>

#include "stress/soak/ledger.h"
#include "stress/soak/script.h"

namespace tinyloop::soak {

// A pool, and the one depth that its prefixes have.
struct SharedPool {
  PrefixPool pool;
  int32_t loops = 2;
};

class World {
 public:
  World(Model model_of_all, const Script& script_of_all, ptrdiff_t threads)
      : model(std::move(model_of_all)), script(script_of_all), gate_(threads + 1) {}

  const Model model;
  const Script& script;
  Ledger ledger;

  std::atomic<bool> stop{false};
  // Replicas that have been killed since the start: only then requests may be replica_failed and
  // handles lost.
  std::atomic<uint64_t> kills{0};
  // Replicas that have been drained or loaded again: handles may be lost.
  std::atomic<uint64_t> drains{0};

  SharedPool pool(size_t which) const {
    const std::lock_guard lock(mutex_);
    return pools_[which % pools_.size()];
  }
  // Puts new pools in the place of all.
  void renew_pools() {
    std::array<SharedPool, kPools> fresh;
    for (size_t i = 0; i < kPools; ++i) {
      const PoolOptions options{.capacity = 2 + 3 * i, .automatic = i % 2 == 1};
      fresh[i] = {PrefixPool(options), int32_t(1 + i % Script::kDepths)};
    }
    const std::lock_guard lock(mutex_);
    std::swap(pools_, fresh);
  }
  void drop_pools() {
    std::array<SharedPool, kPools> none;
    const std::lock_guard lock(mutex_);
    std::swap(pools_, none);
  }

  // A pause: whoever calls for it, and every client, which has given up all it holds, meets here;
  // a second time when it is over.
  std::atomic<bool> pauses{false};
  void meet() { gate_.arrive_and_wait(); }

 private:
  static constexpr size_t kPools = 4;

  mutable std::mutex mutex_;
  std::array<SharedPool, kPools> pools_;
  std::barrier<> gate_;
};

}  // namespace tinyloop::soak
