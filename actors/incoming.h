// A request on its way to a replica that has been chosen for it: as long as there is one, the
// replica does not end its service, so that what was sent to it while it served is served.
#pragma once

#include <utility>

#include "actors/replica.h"

namespace tinyloop::actors {

// Any thread. Held from before the replica's state is looked at until the request has been sent.
class Incoming {
 public:
  Incoming() = default;
  explicit Incoming(Replica& replica) noexcept : replica_(&replica) { replica.expect(); }
  Incoming(Incoming&& other) noexcept : replica_(std::exchange(other.replica_, nullptr)) {}
  Incoming& operator=(Incoming&& other) noexcept {
    Incoming moved(std::move(other));
    std::swap(replica_, moved.replica_);
    return *this;
  }
  ~Incoming() {
    if (replica_) replica_->arrived();
  }

  Replica& replica() const noexcept { return *replica_; }

 private:
  Replica* replica_ = nullptr;
};

}  // namespace tinyloop::actors
