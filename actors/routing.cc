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
Replica& route_by_residence(const ReplicaGroup& group, Pool& pool,
                            const engine::SequenceRequest& request) {
  if (group.size() == 1) return group[0];
  const uint64_t holders = pool.residence().holders(request.tokens, key_of(request));
  Replica* const holder = holders == 0 ? nullptr : group.least_loaded(holders);
  if (holder && holder->has_free_place()) return *holder;
  Replica& other = group.least_loaded();
  return holder && !other.has_free_place() ? *holder : other;
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
  return {replica};
}

Route route(const ReplicaGroup& group, const detail::PoolRef& pool,
            const engine::SequenceRequest& request) {
  if (!pool) return {&group.least_loaded()};
  if (pool->book()->options.automatic) {
    Replica& replica = route_by_residence(group, *pool, request);
    Route result{&replica, use(group, *pool, replica, pool->bind(group, replica))};
    if (group.size() > 1) {
      pool->residence().add(request.tokens, key_of(request), replica.number());
    }
    return result;
  }
  // A pool without prefixes, or one whose prefixes are lost, is as good as none.
  Replica* const home = pool->home(group);
  if (home) return {home, use(group, *pool, *home, pool->lease(group, *home))};
  Replica& replica = group.least_loaded();
  return {&replica, use(group, *pool, replica, nullptr)};
}

Route route_registration(const ReplicaGroup& group, const detail::PoolRef& pool,
                         const engine::SequenceRequest& request) {
  if (pool->book()->options.automatic) return route(group, pool, request);
  Replica* const home = pool->home(group);
  Replica& replica = home ? *home : group.least_loaded();
  return {&replica, use(group, *pool, replica, pool->bind(group, replica))};
}

}  // namespace tinyloop::actors
