// Where a replica's requests meet its pools: before they are queued, when they have computed a
// prefix, and when they end. Replica thread only.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "actors/next_deadline.h"
#include "actors/operation.h"
#include "actors/resident_pool.h"

namespace tinyloop::actors {

class PoolDesk {
 public:
  explicit PoolDesk(engine::BatchEngine& engine) : engine_(engine) {}
  ~PoolDesk() {
    clear([](const OperationPtr&) {});
  }
  PoolDesk(const PoolDesk&) = delete;
  PoolDesk& operator=(const PoolDesk&) = delete;

  enum class Next : uint8_t {
    queue,   // the request knows where it begins
    parked,  // it waits here, held alive, for a prefix that another one is computing
    done,    // a registration whose prefix is there
  };
  // Of a request with a pool, or without. Throws base::Failure: loop_mismatch, out_of_memory.
  Next receive(Operation& operation);
  // A request that finds no room goes without what an automatic pool would have kept of it. False:
  // it keeps nothing, or is there to keep it.
  bool do_without(Operation& operation);
  // After a step: what the request has computed for its pool is there for others.
  void publish(Operation& operation);
  // The request has ended, however.
  void end(Operation& operation);

  // Parked requests whose wait is over, oldest first; null: none.
  OperationPtr next_ready();
  bool has_ready() const noexcept { return !ready_.empty(); }
  // Takes a parked request out.
  OperationPtr remove(Operation& operation);
  // The first parked request that did not ask to wait for whatever it takes, taken out; null: none.
  // For when no request is running or can begin, whoever is to compute the prefix included.
  OperationPtr pop_stranded();
  // Calls visit(OperationPtr) for every parked request past its deadline, taken out.
  template <class Visit>
  void expire(TimePoint now, Visit&& visit) {
    if (!deadline_.passes(now)) return;
    const auto is_past = [&](const Operation& operation) {
      if (operation.is_past_deadline(now)) return true;
      deadline_.note(operation.terms.deadline);
      return false;
    };
    remove_if(is_past, visit);
  }
  // No parked request expires before; unset: none ever does.
  const std::optional<TimePoint>& next_deadline() const noexcept { return deadline_.time(); }
  // As expire(), for every parked request.
  template <class Visit>
  void clear(Visit&& visit) {
    remove_if([](const Operation&) { return true; }, visit);
  }

  // Before the operation is admitted: where what it computes for its pool would exceed the limits
  // on handles, the pool's least recently used prefixes go first.
  void make_room(const Operation& operation);
  // Prefixes give way to requests: the least recently used one of the largest pool goes. False: no
  // pool has any.
  bool yield_one();

  // The replica has failed: every prefix goes.
  void empty_pools() noexcept;

  PoolEntryInfo info(const LeaseRef& pool, int32_t id);
  // Nobody refers to the pool any more.
  void drop(const Lease& pool) {
    pools_.remove_if([&](const Resident& each) { return each.lease == &pool; });
  }

 private:
  struct Resident {
    Resident(const Lease* of, std::shared_ptr<PoolBook> book, engine::BatchEngine& engine)
        : lease(of), pool(std::move(book), engine) {}
    const Lease* lease;
    ResidentPool pool;
  };

  ResidentPool* find(const Lease* lease);
  ResidentPool& resident(const PoolUse& use);
  void park(Operation& operation, OperationList& list);

  template <class Condition, class Visit>
  void remove_if(Condition&& condition, Visit&& visit) {
    if (parked_ == 0) return;
    const auto sweep = [&](OperationList& list) {
      for (auto it = list.begin(); it != list.end();) {
        Operation& operation = *it++;
        if (condition(operation)) visit(remove(operation));
      }
    };
    for (auto& [lease, pool] : pools_) {
      for (PendingPrefix& pending : pool.pending()) sweep(pending.waiters);
    }
    sweep(ready_);
  }

  engine::BatchEngine& engine_;
  std::list<Resident> pools_;  // in order of their first use, on which decisions depend
  OperationList ready_;
  NextDeadline deadline_;
  size_t parked_ = 0;  // in ready_ and behind pending prefixes
};

}  // namespace tinyloop::actors
