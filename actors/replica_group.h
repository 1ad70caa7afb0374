// The replicas of one model: copies of it, each with a thread of its own, that share its requests.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "actors/incoming.h"
#include "actors/replica.h"

namespace tinyloop::actors {

class Pool;

// Constant, save which of them serve. Any thread.
class ReplicaGroup {
 public:
  static constexpr uint64_t kAll = ~uint64_t{0};

  explicit ReplicaGroup(std::vector<ReplicaRef> replicas) : replicas_(std::move(replicas)) {}

  size_t size() const noexcept { return replicas_.size(); }
  Replica& operator[](size_t index) const noexcept { return *replicas_[index]; }
  const std::vector<ReplicaRef>& all() const& noexcept { return replicas_; }
  void all() const&& = delete;  // a loop over it would outlive it

  // The one that the inbox belongs to; null: none.
  Replica* find(const std::shared_ptr<Inbox>& inbox) const noexcept;
  // Where a request is best sent that could go to any: to one that serves, of these to one that has
  // the fewest requests, of these to each in turn. If none serves, to one that is going to.
  Incoming enter() const noexcept;
  // The same among those whose bit is set in `which`; null: none of them serves or is going to.
  Replica* least_loaded(uint64_t which) const noexcept;

  void request_close(ShutdownMode mode) const noexcept;
  // Calls back once when all of them have closed.
  void when_closed(ClosedLatch::Callback callback) const;

  // Sums and lists of what the replicas say.
  MemoryReport memory() const;
  HealthReport health() const;
  Statistics statistics() const;
  std::vector<Metrics> metrics() const;

 private:
  const std::vector<ReplicaRef> replicas_;
  mutable std::atomic<size_t> turn_{0};
};

using GroupRef = std::shared_ptr<const ReplicaGroup>;

}  // namespace tinyloop::actors
