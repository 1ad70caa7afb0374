#include "stress/soak/rest.h"

#include <malloc.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>

// AddressSanitizer's own count, where it is linked in.
extern "C" __attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes();

namespace tinyloop::soak {

bool is_sanitized() {
  return __sanitizer_get_current_allocated_bytes != nullptr;
}

ProcessMemory process_memory() {
  ProcessMemory memory;
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  memory.resident = pages * size_t(sysconf(_SC_PAGESIZE));
  memory.heap = is_sanitized() ? __sanitizer_get_current_allocated_bytes() : mallinfo2().uordblks;
  return memory;
}

size_t idle_bytes(const Model& model) {
  const MemoryReport report = model.memory();
  size_t bytes = report.model_bytes() - report.workspace;
  for (const MemoryReport::Buffer& buffer : report.buffer_list) {
    if (buffer.name == "logits") bytes -= buffer.bytes;
  }
  return bytes;
}

void check_at_rest(World& world, size_t model_bytes) {
  world.drop_pools();
  // Streams that were dropped, and leases, are still on their way.
  const auto busy = [&] {
    for (const Metrics& replica : world.model.metrics()) {
      if (replica.queued + replica.active + replica.memory.cache_reserved > 0) return true;
    }
    return world.ledger.outstanding() > 0;
  };
  for (int i = 0; i < 5000 && busy(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  world.model.async_trim(boost::asio::use_future).get();
  for (const Metrics& replica : world.model.metrics()) {
    const auto demand = [&](bool holds, const char* what) {
      if (!holds) {
        world.ledger.problem("at rest, replica " + std::to_string(replica.replica) + ": " + what);
      }
    };
    const Statistics& s = replica.statistics;
    demand(replica.state == ReplicaState::serving, "it does not serve");
    demand(replica.queued + replica.active == 0, "it has requests");
    demand(replica.memory.pages_used == 0, "pages are in use");
    demand(replica.memory.cache_reserved == 0, "budget is reserved");
    demand(replica.memory.arena == 0, "the arena is not empty");
    demand(replica.memory.handles == 0, "there are snapshots");
    demand(s.accepted ==
               s.completed_ok + s.completed_cancelled + s.completed_deadline + s.completed_failed,
           "accepted is not the sum of what has completed");
  }
  if (world.ledger.outstanding() > 0) {
    world.ledger.problem("at rest: " + std::to_string(world.ledger.outstanding()) +
                         " operations have not completed");
  }
  if (const size_t bytes = idle_bytes(world.model); bytes != model_bytes) {
    world.ledger.problem("at rest: the model holds " + std::to_string(bytes) + " bytes, " +
                         std::to_string(model_bytes) + " at the start");
  }
}

bool is_flat(const std::vector<size_t>& values, size_t slack) {
  if (values.size() < 6) return true;
  const size_t third = values.size() / 3;
  const auto mean = [&](size_t first) {
    const auto begin = values.begin() + ptrdiff_t(first);
    return std::accumulate(begin, begin + ptrdiff_t(third), size_t{0}) / third;
  };
  return mean(values.size() - third) <= mean(values.size() - 2 * third) + slack;
}

}  // namespace tinyloop::soak
