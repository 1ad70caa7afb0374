#include "actors/mailbox.h"

#include <thread>
#include <utility>

#include "base/check.h"

namespace tinyloop::actors {

// Counts a sender in and out, so that close() can wait for those who saw the mailbox open.
class Mailbox::Gate {
 public:
  explicit Gate(Mailbox& mailbox) noexcept : mailbox_(mailbox) { mailbox_.senders_.fetch_add(1); }
  ~Gate() { mailbox_.senders_.fetch_sub(1); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  bool is_open() const noexcept { return !mailbox_.closed_.load(); }

 private:
  Mailbox& mailbox_;
};

// Every queue place is claimed from a counter first, and the reader takes a message out before its
// place is given back; so the lock-free queue is never full.
Mailbox::Mailbox(size_t max_queued) : max_queued_(max_queued), queue_(max_queued + kAdminRoom) {}

Mailbox::~Mailbox() {
  drain([](auto&) {});
}

bool Mailbox::claim_place(WhenFull when_full) noexcept {
  size_t queued = queued_.load();
  do {
    if (queued >= max_queued_ && when_full == WhenFull::fail) return false;
  } while (!queued_.compare_exchange_weak(queued, queued + 1));
  return queued < max_queued_;
}

Sent Mailbox::send(const OperationPtr& operation) {
  const Gate gate(*this);
  if (!gate.is_open()) return Sent::closed;
  const WhenFull when_full = operation->terms.when_full;
  auto message = std::make_unique<Message>(Run{operation});
  if (claim_place(when_full)) {
    TINYLOOP_CHECK(queue_.bounded_push(message.get()));
    message.release();
    return Sent::accepted;
  }
  if (when_full == WhenFull::fail) return Sent::full;
  waiting_.push(*OperationPtr(operation).detach());  // never closed: the gate stands before it
  return Sent::accepted;
}

Sent Mailbox::send(std::unique_ptr<Message>& message) {
  const Gate gate(*this);
  if (!gate.is_open()) return Sent::closed;
  if (admin_.fetch_add(1) >= kAdminRoom) {
    admin_.fetch_sub(1);
    return Sent::full;
  }
  TINYLOOP_CHECK(queue_.bounded_push(message.get()));
  message.release();
  return Sent::accepted;
}

void Mailbox::close() noexcept {
  closed_.store(true);
  while (senders_.load() != 0) std::this_thread::yield();
}

}  // namespace tinyloop::actors
