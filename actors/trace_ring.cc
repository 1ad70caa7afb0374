#include "actors/trace_ring.h"

#include <algorithm>

namespace tinyloop::actors {

void TraceRing::copy_to(std::vector<TraceEvent>& room) const noexcept {
  const auto next = events_.begin() + ptrdiff_t(next_);
  if (added_ < events_.size()) {
    room.resize(std::min(next_, room.size()));
    std::copy_n(events_.begin(), room.size(), room.begin());
    return;
  }
  room.resize(std::min(events_.size(), room.size()));
  std::rotate_copy(events_.begin(), next, events_.end(), room.begin());
}

}  // namespace tinyloop::actors
