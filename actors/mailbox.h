// The bounded, lock-free mailbox of a replica: many senders, one reader. Full and closed are return
// values; nothing blocks and nothing is dropped.
#pragma once

#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <cstddef>
#include <memory>

#include "actors/lane.h"
#include "actors/message.h"
#include "actors/operation.h"

namespace tinyloop::actors {

enum class Sent : uint8_t { accepted, full, closed };

class Mailbox {
 public:
  // Room for messages that are not requests.
  static constexpr size_t kAdminRoom = 64;

  // `max_queued`: requests that may be accepted and not begun, 1 .. 32,768.
  explicit Mailbox(size_t max_queued);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Any thread. A request that may wait is never refused for lack of room: it goes to a lane of
  // its own, linked through the operation itself, behind what the mailbox holds. Throws
  // std::bad_alloc, and then nothing was sent.
  Sent send(const OperationPtr& operation);
  // Any thread. Takes the message only if accepted. Not for Run.
  Sent send(std::unique_ptr<Message>& message);

  // Any thread: requests accepted and not begun, and the bound.
  size_t queued() const noexcept { return queued_.load(); }
  size_t max_queued() const noexcept { return max_queued_; }

  // Replica thread. Calls take() for each message, by its kind, oldest first,
  // waiting requests last. Takes no more than the mailbox can hold, so that senders who refill it
  // at once cannot keep the replica here. `take` must not throw.
  template <class Take>
  void drain(Take&& take) {
    Message* raw = nullptr;
    for (size_t left = max_queued_ + kAdminRoom; left > 0 && queue_.pop(raw); --left) {
      const std::unique_ptr<Message> message(raw);
      if (!std::holds_alternative<Run>(*message)) admin_.fetch_sub(1);
      std::visit(take, *message);
    }
    waiting_.drain([&](Operation& operation) {
      Run message{OperationPtr(&operation, false)};
      take(message);
    });
  }

  // Replica thread: a request that had been accepted has begun, or ended without.
  void left_queue() noexcept { queued_.fetch_sub(1); }

  // Replica thread. From its return on, every send gives `closed` and leaves nothing behind.
  void close() noexcept;

 private:
  class Gate;

  bool claim_place(WhenFull when_full) noexcept;

  const size_t max_queued_;
  std::atomic<size_t> queued_{0};
  std::atomic<size_t> admin_{0};
  std::atomic<size_t> senders_{0};  // inside send()
  std::atomic<bool> closed_{false};
  boost::lockfree::queue<Message*, boost::lockfree::fixed_sized<true>> queue_;
  Lane<Operation, WaitingLane> waiting_;
};

}  // namespace tinyloop::actors
