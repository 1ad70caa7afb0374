// Which replica of a model a request goes to: the one that holds what it begins with, else the one
// with the fewest requests. Any thread.
#pragma once

#include "actors/handle.h"
#include "actors/pool.h"
#include "actors/pool_use.h"
#include "actors/replica_group.h"

namespace tinyloop::actors {

struct Route {
  Incoming way{};  // to be held until the request has been sent
  PoolUse pool{};

  Replica& replica() const noexcept { return way.replica(); }
};

// Of a request that begins with a handle. Throws base::Failure: wrong_model.
Route route(const ReplicaGroup& group, const Handle& handle);
// Of a checked request that may use a pool; null: none. Throws base::Failure: wrong_model.
Route route(const ReplicaGroup& group, const detail::PoolRef& pool,
            const engine::SequenceRequest& request);
// Of a prefix for a pool. Throws base::Failure: wrong_model.
Route route_registration(const ReplicaGroup& group, const detail::PoolRef& pool,
                         const engine::SequenceRequest& request);

}  // namespace tinyloop::actors
