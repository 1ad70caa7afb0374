// The latest events of a replica, in memory that is taken once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tinyloop/trace.h"

namespace tinyloop::actors {

// One thread.
class TraceRing {
 public:
  // capacity >= 1. Throws std::bad_alloc.
  explicit TraceRing(size_t capacity) : events_(capacity) {}

  void add(const TraceEvent& event) noexcept {
    events_[next_] = event;
    if (++next_ == events_.size()) next_ = 0;
    ++added_;
  }

  // Oldest first, into room for as many as there may be, which is cut to what there are: nothing is
  // allocated.
  void copy_to(std::vector<TraceEvent>& room) const noexcept;
  // Overwritten so far.
  uint64_t lost() const noexcept { return added_ > events_.size() ? added_ - events_.size() : 0; }

 private:
  std::vector<TraceEvent> events_;
  size_t next_ = 0;     // where the next one goes
  uint64_t added_ = 0;  // in all
};

}  // namespace tinyloop::actors
