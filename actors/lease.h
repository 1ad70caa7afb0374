// What keeps a cached prefix alive in its replica: the last reference, dropped on any thread at any
// time, tells the replica to let go. The message is the lease itself, so it can neither find a
// queue full nor fail for want of memory.
#pragma once

#include <memory>

#include "actors/lane.h"
#include "actors/reply.h"
#include "engine/prefix_shape.h"

namespace tinyloop::actors {

class Inbox;
class Lease;

struct ReleaseLane;  // tag

using LeaseRef = std::shared_ptr<Lease>;

class Lease : public LaneNode<ReleaseLane> {
 public:
  // Of nothing yet. Throws std::bad_alloc.
  static LeaseRef make(std::shared_ptr<Inbox> inbox);

  // Set on the replica's thread, before the lease is anybody's but the operation's that asked for
  // the prefix; 0: there is none.
  engine::PrefixId prefix = 0;
  // Sent when the replica has let go. Set by whoever makes the last owner drop it.
  ReplyPtr<> released;

  const std::shared_ptr<Inbox>& inbox() const noexcept { return inbox_; }
  // Replica thread: the replica has let go. Tells who waits for it, and ends the lease.
  static void finish(Lease& lease) noexcept;

 private:
  explicit Lease(std::shared_ptr<Inbox> inbox) : inbox_(std::move(inbox)) {}
  static void give_back(Lease* lease) noexcept;

  const std::shared_ptr<Inbox> inbox_;
};

}  // namespace tinyloop::actors
