// All that other threads and requests can reach of a replica: the mailbox, the control lane for
// cancels, the bell, and the courier that takes completions away. It outlives the replica as long
// as somebody may still cancel a request.
#pragma once

#include <memory>
#include <utility>

#include "actors/cancel_counts.h"
#include "actors/control_lane.h"
#include "actors/courier.h"
#include "actors/mailbox.h"
#include "actors/waker.h"

namespace tinyloop::actors {

class Inbox {
 public:
  // `courier_of_engine` may be null where no replica serves.
  explicit Inbox(size_t max_queued, std::shared_ptr<Courier> courier_of_engine = nullptr)
      : mailbox(max_queued), courier(std::move(courier_of_engine)) {}

  // Any thread.
  template <class What>
  Sent send(What& what) {
    const Sent sent = mailbox.send(what);
    if (sent == Sent::accepted) waker.wake();
    return sent;
  }
  // False: the replica has ended.
  bool cancel(Operation& operation) noexcept {
    if (!cancels.post(operation)) return false;
    waker.wake();
    return true;
  }

  Mailbox mailbox;
  ControlLane cancels;
  Waker waker;
  CancelCounts cancel_counts;
  const std::shared_ptr<Courier> courier;
};

}  // namespace tinyloop::actors
