#include "actors/pool_desk.h"

#include <new>
#include <utility>

namespace tinyloop::actors {

PoolDesk::Next PoolDesk::receive(Operation& operation) {
  if (!operation.pool.lease) return Next::queue;
  ResidentPool& pool = resident(operation.pool);
  if (operation.pool.registers) {
    if (const auto id = pool.find_registered(operation.request)) {
      operation.pool.id = *id;
      return Next::done;
    }
  }
  if (PendingPrefix* pending = pool.better_pending(operation.request)) {
    park(operation, pending->waiters);
    return Next::parked;
  }
  pool.serve(operation);
  pool.expect(operation);
  return Next::queue;
}

bool PoolDesk::do_without(Operation& operation) {
  // What a build keeps is what it is for.
  const engine::SequenceRequest& request = operation.request;
  if (request.kind != engine::SequenceKind::generate || !request.keep) return false;
  operation.request.keep.reset();
  end(operation);
  return true;
}

void PoolDesk::publish(Operation& operation) {
  if (operation.pool.kept == 0) return;
  ResidentPool& pool = resident(operation.pool);
  try {
    pool.publish(operation);
  } catch (const std::bad_alloc&) {  // a registration tells its caller, others go on
  }
  pool.settle(operation, ready_);
}

void PoolDesk::end(Operation& operation) {
  if (operation.pool.pending) resident(operation.pool).settle(operation, ready_);
}

OperationPtr PoolDesk::next_ready() {
  return ready_.empty() ? nullptr : remove(ready_.front());
}

OperationPtr PoolDesk::remove(Operation& operation) {
  OperationList& list = *std::exchange(operation.pool.parked_in, nullptr);
  list.erase(list.iterator_to(operation));
  --parked_;
  return {&operation, false};
}

OperationPtr PoolDesk::pop_stranded() {
  for (auto& [lease, pool] : pools_) {
    for (PendingPrefix& pending : pool.pending()) {
      for (Operation& waiter : pending.waiters) {
        if (waiter.terms.when_full != WhenFull::wait) return remove(waiter);
      }
    }
  }
  return nullptr;
}

bool PoolDesk::yield_one() {
  ResidentPool* largest = nullptr;
  for (auto& [lease, pool] : pools_) {
    if (!largest || pool.bytes() > largest->bytes()) largest = &pool;
  }
  return largest && largest->yield_one();
}

void PoolDesk::make_room(const Operation& operation) {
  if (operation.pool.pending) resident(operation.pool).make_room(operation.request.kept_shape());
}

void PoolDesk::empty_pools() noexcept {
  try {
    while (yield_one()) {
    }
  } catch (...) {  // what could not be named goes with the pool
  }
}

PoolEntryInfo PoolDesk::info(const LeaseRef& pool, int32_t id) {
  ResidentPool* const found = find(pool.get());
  return found ? found->info(id) : PoolEntryInfo{};
}

ResidentPool* PoolDesk::find(const Lease* lease) {
  for (Resident& each : pools_) {
    if (each.lease == lease) return &each.pool;
  }
  return nullptr;
}

ResidentPool& PoolDesk::resident(const PoolUse& use) {
  if (ResidentPool* const found = find(use.lease.get())) return *found;
  return pools_.emplace_back(use.lease.get(), use.book, engine_).pool;
}

void PoolDesk::park(Operation& operation, OperationList& list) {
  operation.phase = Phase::queued;
  operation.pool.parked_in = &list;
  list.push_back(*OperationPtr(&operation).detach());
  deadline_.note(operation.terms.deadline);
  ++parked_;
}

}  // namespace tinyloop::actors
