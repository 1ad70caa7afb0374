#include "actors/replica_actor.h"

#include <new>
#include <utility>

#include "actors/error.h"
#include "actors/replica.h"
#include "base/check.h"

namespace tinyloop::actors {

namespace {

error_code shutdown_error() {
  return make_error(errc::shutdown, "the model was closed before the request had begun");
}

error_code deadline_error(const Operation& operation) noexcept {
  const auto late = std::chrono::steady_clock::now() - *operation.terms.deadline;
  const auto late_us = std::chrono::duration_cast<std::chrono::microseconds>(late).count();
  try {
    return make_error(errc::deadline_exceeded, "the request had not begun at its deadline, " +
                                                   std::to_string(late_us) + " us ago");
  } catch (const std::bad_alloc&) {
    return make_error(errc::deadline_exceeded, {});
  }
}

}  // namespace

ReplicaActor::ReplicaActor(Replica& replica, engine::BatchEngine& engine)
    : replica_(replica), engine_(engine), queue_(engine, replica.cache_budget()) {}

ReplicaActor::~ReplicaActor() = default;

void ReplicaActor::run() noexcept {
  Waker& waker = replica_.inbox()->waker;
  for (;;) {
    const uint32_t epoch = waker.epoch();
    bool worked = true;
    try {
      worked = turn();
    } catch (...) {
      fail(current_error("replica"));
    }
    sweep();
    if (worked) continue;
    if (closing_ && queue_.empty()) return;
    waker.park(epoch, queue_.next_deadline());
  }
}

// False: there was nothing to do, and will not be until the bell rings or a deadline passes.
bool ReplicaActor::turn() {
  follow_close_request();
  receive();
  expire();
  sweep();
  begin();
  if (active_.empty()) return false;
  step();
  return true;
}

void ReplicaActor::receive() {
  Inbox& inbox = *replica_.inbox();
  inbox.releases.drain([this](Lease& lease) { let_go(lease); });
  inbox.cancels.drain([this](Operation& operation) { cancel(operation); });
  inbox.mailbox.drain([this](auto& message) { take(message); });
}

// Nothing may be thrown from here: the messages behind this one must be taken, too.
void ReplicaActor::take(Run& message) {
  Operation& operation = *message.operation;
  try {
    accept(operation);
  } catch (const std::bad_alloc&) {
    end_unbegun(operation, make_error(errc::out_of_memory, {}));
  } catch (...) {
    fail(current_error("queue"));
    end_unbegun(operation, make_error(*failure_));
  }
}

void ReplicaActor::accept(Operation& operation) {
  std::optional<base::Error> refusal = failure_;
  if (!refusal) {
    if (replica_.close_requested() == ShutdownMode::cancel) {
      return end_unbegun(operation, shutdown_error());
    }
    if (operation.cancel_requested()) {
      operation.cancel_reached();
      return end_unbegun(operation, make_error(errc::operation_aborted, {}));
    }
    find_base(operation);
    refusal = queue_.accept(operation);
  }
  if (!refusal) return replica_.counters().count_accepted();
  operation.request.let_go();
  replica_.inbox()->mailbox.left_queue();
  replica_.reject(operation, make_error(Replica::told(operation, *refusal)), OnThread::replicas);
}

// A lease is only ever of a prefix that is there.
void ReplicaActor::find_base(Operation& operation) {
  if (!operation.base) return;
  operation.request.base = engine_.find_prefix(operation.base->prefix);
  TINYLOOP_CHECK(operation.request.base != nullptr);
}

// Nobody refers to the prefix any more.
void ReplicaActor::let_go(Lease& lease) noexcept {
  try {
    engine_.drop_prefix(lease.prefix);
  } catch (...) {
    fail(current_error("release"));
  }
  Lease::finish(lease);
}

void ReplicaActor::take(Trim& message) {
  try {
    message.reply->set({}, engine_.trim());
  } catch (...) {
    const base::Error error = current_error("trim");
    message.reply->set(make_error(error), 0);
    fail(error);
  }
  replica_.inbox()->courier->send(*message.reply);
}

void ReplicaActor::take(Visit& message) {
  try {
    message.visit(engine_);
  } catch (...) {
    fail(current_error("visit"));
  }
}

void ReplicaActor::cancel(Operation& operation) {
  operation.cancel_reached();
  switch (operation.phase) {
    case Phase::queued:
      end_unbegun(*queue_.remove(operation), make_error(errc::operation_aborted, {}));
      return;
    case Phase::begun:
      engine_.finish(operation.id, FinishReason::cancelled);
      return;
    case Phase::sent:   // take(Run) will see the request to cancel
    case Phase::ended:  // too late
      return;
  }
}

void ReplicaActor::follow_close_request() {
  const auto mode = replica_.close_requested();
  if (!mode) return;
  if (!std::exchange(closing_, true)) replica_.inbox()->mailbox.close();
  if (*mode == ShutdownMode::drain) return;
  queue_.clear(
      [this](const OperationPtr& operation) { end_unbegun(*operation, shutdown_error()); });
  for (Operation& operation : active_) engine_.finish(operation.id, FinishReason::cancelled);
}

void ReplicaActor::expire() {
  const TimePoint time = std::chrono::steady_clock::now();
  queue_.expire(time, [this](const OperationPtr& operation) {
    end_unbegun(*operation, deadline_error(*operation));
  });
  for (Operation& operation : active_)
    if (operation.is_past_deadline(time)) engine_.finish(operation.id, FinishReason::deadline);
}

void ReplicaActor::begin() {
  while (engine_.has_room()) {
    OperationPtr operation = queue_.pop();
    if (!operation) break;
    begin_one(std::move(operation));
  }
  // With nobody active, handles hold what the queue waits for. Somebody has to drop them; but a
  // replica that is closing waits for no one.
  if (closing_ && active_.empty()) {
    queue_.clear(
        [this](const OperationPtr& operation) { end_unbegun(*operation, shutdown_error()); });
  }
}

void ReplicaActor::begin_one(OperationPtr operation) {
  try {
    operation->id = engine_.admit(std::move(operation->request), *operation);
  } catch (const base::Failure& failure) {
    return begin_failed(*operation, failure.error());
  } catch (...) {
    return begin_failed(*operation, current_error("begin"));
  }
  operation->phase = Phase::begun;
  active_.push_back(*operation.detach());
  replica_.set_active(active_.size());
  replica_.inbox()->mailbox.left_queue();
}

// The engine has not taken the sequence.
void ReplicaActor::begin_failed(Operation& operation, const base::Error& error) noexcept {
  if (error.code != errc::out_of_memory && error.code != errc::overloaded) fail(error);
  end_unbegun(operation, make_error(failure_ ? Replica::told(operation, *failure_) : error));
}

void ReplicaActor::step() {
  replica_.counters().count_step(engine_.step());
}

// Hands out what has ended since the last time.
void ReplicaActor::sweep() {
  for (auto it = active_.begin(); it != active_.end();) {
    Operation& operation = *it;
    if (operation.phase != Phase::ended) {
      ++it;
      continue;
    }
    it = active_.erase(it);
    replica_.set_active(active_.size());
    complete(*OperationPtr(&operation, false));
  }
}

void ReplicaActor::end_unbegun(Operation& operation, error_code error) {
  if (operation.phase == Phase::sent) replica_.counters().count_accepted();
  operation.request.let_go();
  operation.end({error});
  replica_.inbox()->mailbox.left_queue();
  complete(operation);
}

void ReplicaActor::complete(Operation& operation) {
  replica_.counters().count_completed(operation.outcome);
  operation.base.reset();
  operation.complete(OnThread::replicas);
}

void ReplicaActor::fail(const base::Error& cause) noexcept {
  failure_.emplace(errc::replica_failed, std::string());
  try {
    failure_->detail = cause.detail;
  } catch (const std::bad_alloc&) {  // the code must do
  }
  replica_.mark_failed(cause);
  engine_.fail_all(*failure_);
  queue_.abandon(
      [this](const OperationPtr& operation) { end_unbegun(*operation, make_error(*failure_)); });
}

}  // namespace tinyloop::actors
