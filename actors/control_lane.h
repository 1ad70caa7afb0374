// The lane on which cancels travel past the mailbox. The node is part of the operation, so a cancel
// can neither find the lane full nor fail for want of memory.
#pragma once

#include "actors/lane.h"
#include "actors/operation.h"

namespace tinyloop::actors {

class ControlLane {
 public:
  ControlLane() = default;
  ControlLane(const ControlLane&) = delete;
  ControlLane& operator=(const ControlLane&) = delete;
  ~ControlLane() { close(); }

  // Any thread, once per operation (Operation::request_cancel sees to it). Keeps the operation
  // alive until it is drained. False after close(), and then it has done nothing.
  bool post(Operation& operation) noexcept {
    OperationPtr held(&operation);
    if (!lane_.push(operation)) return false;
    held.detach();
    return true;
  }

  // Replica thread. Calls visit(Operation&) in the order of the posts.
  template <class Visit>
  void drain(Visit&& visit) {
    lane_.drain([&](Operation& operation) {
      const OperationPtr held(&operation, false);
      visit(operation);
    });
  }

  // Replica thread, at its end. An operation keeps the inbox alive, so one that was left in here
  // would keep both for ever.
  void close() {
    lane_.close([](Operation& operation) { const OperationPtr dropped(&operation, false); });
  }

 private:
  Lane<Operation, CancelLane> lane_;
};

}  // namespace tinyloop::actors
