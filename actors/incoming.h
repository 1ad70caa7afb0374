// A request on its way to a replica that has been chosen for it: as long as there is one, the
// replica does not end its service, so that what was let in while it served is served.
#pragma once

#include <utility>

#include "actors/replica.h"

namespace tinyloop::actors {

// Any thread. Held from before the replica's state is looked at until the request has been sent.
class Incoming {
 public:
  Incoming() = default;
  explicit Incoming(Replica& replica) noexcept : replica_(&replica) {
    replica.expect();
    let_in_ = replica.can_serve();
  }
  Incoming(Incoming&& other) noexcept
      : replica_(std::exchange(other.replica_, nullptr)), let_in_(other.let_in_) {}
  Incoming& operator=(Incoming&& other) noexcept {
    Incoming moved(std::move(other));
    std::swap(replica_, moved.replica_);
    std::swap(let_in_, moved.let_in_);
    return *this;
  }
  ~Incoming() {
    if (replica_) replica_->arrived();
  }

  explicit operator bool() const noexcept { return replica_ != nullptr; }
  Replica& replica() const noexcept { return *replica_; }
  // Whether the replica served, or was about to, when it heard of the request.
  bool is_let_in() const noexcept { return let_in_; }

 private:
  Replica* replica_ = nullptr;
  bool let_in_ = false;
};

}  // namespace tinyloop::actors
