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
  // its own, linked through the operation itself, behind what the mailbox holds.
  Sent send(const OperationPtr& operation);
  // Any thread. Takes the message only if accepted. Not for Run.
  Sent send(std::unique_ptr<Message>& message);

  // Any thread: requests accepted and not begun, and the bound.
  size_t queued() const noexcept { return queued_.load(); }
  size_t max_queued() const noexcept { return max_queued_; }

  // Replica thread. Calls visit(Message&) for each message, oldest first, waiting requests last.
  template <class VisitMessage>
  void drain(VisitMessage&& visit) {
    Message* raw = nullptr;
    while (queue_.pop(raw)) {
      const std::unique_ptr<Message> message(raw);
      if (!std::holds_alternative<Run>(*message)) admin_.fetch_sub(1);
      visit(*message);
    }
    waiting_.drain([&](Operation& operation) {
      Message message = Run{OperationPtr(&operation, false)};
      visit(message);
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
