#include "actors/routing.h"

#include <utility>

namespace tinyloop::actors {

namespace {

engine::PrefixKey key_of(const engine::SequenceRequest& request) {
  return {.loops = request.loops, .window = request.window};
}

// Of an automatic pool, whose prefixes are on all replicas. One that holds the prefix is left alone
// while all its places are taken and another one has a free place: then that one computes the
// prefix, too.
Incoming enter_by_residence(const ReplicaGroup& group, const Residence& residence,
                            const Residence::Beginnings& beginnings) {
  const uint64_t holders = residence.holders(beginnings);
  if (Replica* const holder = holders == 0 ? nullptr : group.least_loaded(holders)) {
    Incoming way(*holder);
    const Replica* const other = group.least_loaded(ReplicaGroup::kAll);
    const bool spills = !holder->has_free_place() && other && other->has_free_place();
    if (holder->serves() && way.is_let_in() && !spills) return way;
  }
  return group.enter();
}

Incoming route_by_residence(const ReplicaGroup& group, Pool& pool,
                            const engine::SequenceRequest& request) {
  if (group.size() == 1) return group.enter();
  const Residence::Beginnings beginnings = Residence::beginnings(request.tokens, key_of(request));
  Incoming way = enter_by_residence(group, pool.residence(), beginnings);
  pool.residence().add(beginnings, way.replica().number());
  return way;
}

// To where a pool's prefixes are; empty: nowhere, or they are lost.
Incoming enter_home(const ReplicaGroup& group, const Pool& pool) {
  if (Replica* const home = pool.home(group)) {
    Incoming way(*home);
    if (way.is_let_in() || group.size() == 1) return way;
  }
  return {};
}

PoolUse use(const ReplicaGroup& group, Pool& pool, const Replica& replica, LeaseRef lease) {
  return {.book = pool.book(),
          .lease = std::move(lease),
          .replica = int32_t(replica.number()),
          .replicas = int32_t(group.size())};
}

}  // namespace

Route route(const ReplicaGroup& group, const Handle& handle) {
  Replica* const replica = group.find(handle.inbox());
  if (!replica) throw base::Failure(errc::wrong_model, "the handle was made by another model");
  return {Incoming(*replica)};
}

Route route(const ReplicaGroup& group, const detail::PoolRef& pool,
            const engine::SequenceRequest& request) {
  if (!pool) return {group.enter()};
  if (pool->book()->options.automatic) {
    Incoming way = route_by_residence(group, *pool, request);
    const Replica& replica = way.replica();
    PoolUse used = use(group, *pool, replica, pool->bind(group, replica));
    return {std::move(way), std::move(used)};
  }
  // A pool without prefixes, or one whose prefixes are lost, is as good as none.
  Incoming way = enter_home(group, *pool);
  LeaseRef lease = way ? pool->lease(group, way.replica()) : nullptr;
  if (!way) way = group.enter();
  PoolUse used = use(group, *pool, way.replica(), std::move(lease));
  return {std::move(way), std::move(used)};
}

Route route_registration(const ReplicaGroup& group, const detail::PoolRef& pool,
                         const engine::SequenceRequest& request) {
  if (pool->book()->options.automatic) return route(group, pool, request);
  for (;;) {
    Incoming way = enter_home(group, *pool);
    if (!way) way = group.enter();
    LeaseRef lease = pool->bind(group, way.replica());
    if (lease->inbox() != way.replica().inbox()) continue;  // another registration came first
    PoolUse used = use(group, *pool, way.replica(), std::move(lease));
    return {std::move(way), std::move(used)};
  }
}

}  // namespace tinyloop::actors
