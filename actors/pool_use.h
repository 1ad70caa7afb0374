// What a request has to do with a pool; part of its operation.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>

#include "actors/pool.h"

namespace tinyloop::actors {

class Operation;
class PendingPrefix;

// What callers know a replica's prefix by, and back: no two replicas of a model have the same.
inline int32_t id_among_replicas(int32_t id, int32_t replica, int32_t replicas) {
  return (id - 1) * replicas + replica + 1;
}
inline int32_t replica_of_id(int32_t id, int32_t replicas) {
  return (id - 1) % replicas;
}
inline int32_t id_in_replica(int32_t id, int32_t replicas) {
  return (id - 1) / replicas + 1;
}

struct PoolUse {
  // From before the request is sent until its end; null: none.
  std::shared_ptr<PoolBook> book{};
  LeaseRef lease{};
  int32_t replica = 0;  // where the request goes, of how many
  int32_t replicas = 1;
  bool registers = false;  // it is there for the pool alone; else it begins with a prefix of it

  // Replica thread.
  PendingPrefix* pending = nullptr;  // that the request is computing
  engine::PrefixId kept = 0;         // computed, and not in the pool yet
  bool unkept = false;               // it will not be: the engine has no room for it
  int32_t id = 0;                    // in the replica, of what it has registered or found
  // The list it is in while it waits for a prefix that another request is computing.
  boost::intrusive::list<Operation, boost::intrusive::constant_time_size<true>>* parked_in =
      nullptr;
};

}  // namespace tinyloop::actors
