// All that other threads and requests can reach of a replica: the mailbox, the control lanes for
// cancels and for handles that nobody refers to any more, the bell, and the courier that takes
// completions away. It outlives the replica as long as somebody may still cancel a request or drop
// a handle.
#pragma once

#include <memory>
#include <utility>

#include "actors/cancel_counts.h"
#include "actors/clock.h"
#include "actors/control_lane.h"
#include "actors/courier.h"
#include "actors/distributions.h"
#include "actors/lease.h"
#include "actors/mailbox.h"
#include "actors/tracer.h"
#include "actors/waker.h"

namespace tinyloop::actors {

class Inbox {
 public:
  // `courier_of_engine` may be null where no replica serves. The clock must outlive the inbox.
  explicit Inbox(size_t max_queued, std::shared_ptr<Courier> courier_of_engine = nullptr,
                 const Clock& clock_of_engine = Clock::steady())
      : mailbox(max_queued), clock(clock_of_engine), courier(std::move(courier_of_engine)) {}

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

  // False: the replica has ended, and the lease is still the caller's.
  bool release(Lease& lease) noexcept {
    if (!releases.push(lease)) return false;
    waker.wake();
    return true;
  }

  Mailbox mailbox;
  ControlLane cancels;
  Lane<Lease, ReleaseLane> releases;
  Waker waker;
  CancelCounts cancel_counts;
  Distributions distributions;
  std::unique_ptr<Tracer> tracer;  // null: off. The replica's thread alone, while it serves
  const Clock& clock;
  const std::shared_ptr<Courier> courier;
};

}  // namespace tinyloop::actors
