// All that other threads can reach of a replica: the mailbox, the control lane for cancels, and the
// bell. It outlives the replica as long as somebody may still cancel a request.
#pragma once

#include "actors/control_lane.h"
#include "actors/mailbox.h"
#include "actors/waker.h"

namespace tinyloop::actors {

class Inbox {
 public:
  explicit Inbox(size_t max_queued) : mailbox(max_queued) {}

  // Any thread.
  template <class What>
  Sent send(What& what) {
    const Sent sent = mailbox.send(what);
    if (sent == Sent::accepted) waker.wake();
    return sent;
  }
  void cancel(Operation& operation) noexcept {
    cancels.post(operation);
    waker.wake();
  }

  Mailbox mailbox;
  ControlLane cancels;
  Waker waker;
};

}  // namespace tinyloop::actors
