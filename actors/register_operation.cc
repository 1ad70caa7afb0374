#include "actors/register_operation.h"

#include "actors/error.h"
#include "actors/pool_use.h"

namespace tinyloop::actors {

void RegisterOperation::open() {
  error_code error = whole_or_error();
  if (!error && pool.id == 0) {
    error = make_error(errc::out_of_memory, "the pool has no host memory for the prefix");
  }
  answer(error, error ? 0 : id_among_replicas(pool.id, pool.replica, pool.replicas));
}

}  // namespace tinyloop::actors
