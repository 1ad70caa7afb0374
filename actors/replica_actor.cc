#include "actors/replica_actor.h"

#include <chrono>
#include <new>
#include <utility>

#include "actors/error.h"
#include "actors/replica.h"
#include "engine/rank.h"

namespace tinyloop::actors {

namespace {

base::Error closed_error() noexcept {
  return with_sentence(errc::shutdown, "the model was closed before the request had begun");
}

base::Error drained_error() noexcept {
  return with_sentence(errc::shutdown, "the replica was drained before the request had begun");
}

base::Error deadline_error(const Operation& operation, TimePoint now) noexcept {
  const auto late = now - *operation.terms.deadline;
  const auto late_us = std::chrono::duration_cast<std::chrono::microseconds>(late).count();
  return with_sentence(errc::deadline_exceeded, [&] {
    return "the request had not begun at its deadline, " + std::to_string(late_us) + " us ago";
  });
}

// Of a request that is parked for a prefix that cannot be computed now.
base::Error parked_error(const Operation& operation) noexcept {
  const bool fails = operation.terms.when_full == WhenFull::fail;
  return with_sentence(
      fails ? errc::overloaded : errc::out_of_memory,
      "another request is to compute the prefix, and waits for K/V budget that reuse "
      "handles hold");
}

}  // namespace

ReplicaActor::ReplicaActor(Replica& replica, engine::BatchEngine& engine)
    : replica_(replica), engine_(engine), desk_(engine), queue_(engine, replica.cache_budget()) {
  engine_.set_relief([this] { return relieve(); });
}

ReplicaActor::~ReplicaActor() {
  engine_.set_relief({});
}

TimePoint ReplicaActor::now() const noexcept {
  return replica_.inbox()->clock.now();
}

Loop::Next ReplicaActor::turn() noexcept {
  bool worked = true;
  const bool was_leaving = is_leaving();
  const bool expects_any = replica_.expects_any();  // before the inbox is looked at
  try {
    worked = work();
  } catch (...) {
    fail(current_error("replica"));
  }
  sweep();
  // Whom it expects is to be asked again once it shows that it leaves.
  if (worked || desk_.has_ready() || is_leaving() != was_leaving) return {};
  if (is_leaving() && queue_.empty() && (closing_ || !expects_any)) return {Loop::Next::end};
  return {Loop::Next::sleep, NextDeadline::earlier(queue_.next_deadline(), desk_.next_deadline())};
}

// False: there was nothing to do, and will not be until the bell rings or a deadline passes.
bool ReplicaActor::work() {
  follow_close_request();
  receive();
  take_up_parked();
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
  operation.request.rank = engine::rank(arrivals_++, operation.request.config.priority);
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
      return end_unbegun(operation, make_error(closed_error()));
    }
    if (operation.cancel_requested()) {
      operation.cancel_reached();
      return end_unbegun(operation, make_error(errc::operation_aborted, {}));
    }
    refusal = route(operation);
  }
  if (!refusal) {
    replica_.counters().count_accepted();
    if (operation.phase == Phase::sent) finish_registered(operation);
    return;
  }
  desk_.end(operation);
  operation.request.let_go();
  replica_.inbox()->mailbox.left_queue();
  replica_.reject(operation, make_error(replica_.told(operation, std::move(*refusal))),
                  OnThread::replicas);
}

// To the queue, or to where it waits for a prefix; a registration that finds its prefix there goes
// nowhere.
std::optional<base::Error> ReplicaActor::route(Operation& operation) {
  if (!find_base(operation)) {
    return base::Error{errc::handle_lost, "the replica that held the prefix has been loaded again"};
  }
  try {
    if (desk_.receive(operation) != PoolDesk::Next::queue) return std::nullopt;
    if (operation.pool.lease && !operation.pool.registers) {
      replica_.counters().count_lookup(operation.request.base_positions);
    }
  } catch (const base::Failure& failure) {
    return failure.error();
  }
  auto refusal = queue_.accept(operation);
  if (refusal && desk_.do_without(operation)) refusal = queue_.accept(operation);
  while (refusal && refusal->code == errc::overloaded && desk_.yield_one()) {
    refusal = queue_.accept(operation);
  }
  return refusal;
}

void ReplicaActor::finish_registered(Operation& operation) {
  operation.end({});
  replica_.inbox()->mailbox.left_queue();
  complete(operation);
}

// What they have waited for is there, or will not be: they are looked at anew.
void ReplicaActor::take_up_parked() {
  while (const OperationPtr operation = desk_.next_ready()) {
    operation->phase = Phase::sent;
    std::optional<base::Error> refusal;
    try {
      refusal = route(*operation);
    } catch (const std::bad_alloc&) {
      refusal = base::Error{errc::out_of_memory, {}};
    }
    if (refusal) {
      operation->phase = Phase::queued;  // it has been accepted long ago
      end_unbegun(*operation, make_error(*refusal));
    } else if (operation->phase == Phase::sent) {
      finish_registered(*operation);
    }
  }
}

// The prefix is there, unless the replica has been loaded again since it was computed. False: it is
// lost.
bool ReplicaActor::find_base(Operation& operation) {
  if (!operation.base) return true;
  operation.request.base = engine_.find_prefix(operation.base->prefix);
  return operation.request.base != nullptr;
}

// Nobody refers to the prefix any more.
void ReplicaActor::let_go(Lease& lease) noexcept {
  try {
    engine_.drop_prefix(lease.prefix);
    desk_.drop(lease);
  } catch (...) {
    fail(current_error("release"));
  }
  Lease::finish(lease);
}

void ReplicaActor::take(Trim& message) {
  error_code error;
  size_t bytes = 0;
  try {
    bytes = engine_.trim();
  } catch (...) {
    const base::Error cause = current_error("trim");
    error = make_error(cause);
    fail(cause);
  }
  if (const auto reply = message.call->answered(error, bytes)) {
    replica_.inbox()->courier->send(*reply);
  }
}

void ReplicaActor::take(Maintain& message) {
  if (maintenance_) {
    message.reply->set(make_error(
        with_sentence(errc::overloaded, "the replica is being drained or loaded again already")));
    return replica_.inbox()->courier->send(*message.reply);
  }
  maintenance_ = std::move(message);
  replica_.mark_draining();
}

void ReplicaActor::take(AskPool& message) {
  message.reply->set({}, desk_.info(message.pool, message.id));
  message.pool.reset();
  replica_.inbox()->courier->send(*message.reply);
}

void ReplicaActor::take(ReadTrace& message) {
  if (const auto& tracer = replica_.inbox()->tracer) tracer->read(message.room);
  message.reply->set({}, std::move(message.room));
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
      end_unbegun(*(operation.pool.parked_in ? desk_.remove(operation) : queue_.remove(operation)),
                  make_error(errc::operation_aborted, {}));
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
  const auto end = [this](const OperationPtr& each) {
    end_unbegun(*each, make_error(closed_error()));
  };
  desk_.clear(end);
  queue_.clear(end);
  for (Operation& operation : active_) engine_.finish(operation.id, FinishReason::cancelled);
}

void ReplicaActor::expire() {
  const TimePoint time = now();
  const auto end = [&](const OperationPtr& late) {
    end_unbegun(*late, make_error(deadline_error(*late, time)));
  };
  desk_.expire(time, end);
  queue_.expire(time, end);
  for (Operation& operation : active_)
    if (operation.is_past_deadline(time)) engine_.finish(operation.id, FinishReason::deadline);
}

void ReplicaActor::begin() {
  begin_all();
  while (active_.empty() && !queue_.empty()) {
    // What a request that has just ended was the last to use.
    replica_.inbox()->releases.drain([this](Lease& lease) { let_go(lease); });
    begin_all();
    if (!active_.empty()) break;
    if (const OperationPtr stranded = queue_.pop_stranded()) {
      end_unbegun(*stranded, make_error(queue_.stranded_error(*stranded)));
    } else if (const OperationPtr parked = desk_.pop_stranded()) {
      end_unbegun(*parked, make_error(parked_error(*parked)));
    } else if (const OperationPtr entangled = queue_.pop_entangled()) {
      end_unbegun(*entangled, make_error(queue_.entangled_error(*entangled)));
    } else {
      break;
    }
  }
  // With nobody active, handles hold what the queue waits for. Somebody has to drop them; but a
  // replica that is leaving waits for no one.
  if (is_leaving() && active_.empty()) {
    queue_.clear([this](const OperationPtr& each) {
      end_unbegun(*each, make_error(closing_ ? closed_error() : drained_error()));
    });
  }
}

void ReplicaActor::begin_all() {
  for (;;) {
    OperationPtr operation = queue_.pop();
    if (!operation) {
      // Others who run will give back what they have; nobody does when no one runs.
      if (!active_.empty() || queue_.empty()) break;
      if (desk_.yield_one()) continue;
      operation = queue_.pop_holder();
      if (!operation) break;
    }
    begin_one(std::move(operation));
  }
}

// The engine finds no page for a request that runs. Promises to others go first, then prefixes that
// can be computed again.
bool ReplicaActor::relieve() {
  return queue_.take_back_last() || desk_.yield_one();
}

void ReplicaActor::begin_one(OperationPtr operation) {
  try {
    desk_.make_room(*operation);
    operation->id = engine_.admit(std::move(operation->request), *operation);
  } catch (...) {
    return begin_failed(*operation, current_refusal("begin"));
  }
  operation->phase = Phase::begun;
  if (operation->pool.unkept) desk_.end(*operation);  // nobody need wait for it
  active_.push_back(*operation.detach());
  replica_.set_active(active_.size());
  replica_.inbox()->mailbox.left_queue();
}

// The engine has not taken the sequence.
void ReplicaActor::begin_failed(Operation& operation, const base::Error& error) noexcept {
  if (error.code != errc::out_of_memory && error.code != errc::overloaded) fail(error);
  end_unbegun(operation, make_error(failure_ ? *failure_ : error));
}

void ReplicaActor::step() {
  const TimePoint begin = now();
  const engine::StepOutcome outcome = engine_.step();
  const TimePoint end = now();
  replica_.inbox()->distributions.count_step(end - begin, outcome);
  if (const auto& tracer = replica_.inbox()->tracer) tracer->add_step(begin, end, outcome);
  replica_.counters().count_step(outcome);
  for (Operation& operation : active_) {
    if (operation.pool.pending) desk_.publish(operation);
  }
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
  replica_.note_completed(operation.outcome);
  desk_.end(operation);
  operation.base.reset();
  operation.pool.lease.reset();
  operation.complete(OnThread::replicas);
}

void ReplicaActor::fail(const base::Error& cause) noexcept {
  failure_.emplace(errc::replica_failed, std::string());
  try {
    failure_->detail = cause.detail;
  } catch (const std::bad_alloc&) {  // the code must do
  }
  replica_.mark_failed(cause);
  if (const auto& tracer = replica_.inbox()->tracer) tracer->add_failure();
  engine_.fail_all(*failure_);
  // Where the engine's own counts are broken it may have lost one.
  for (Operation& operation : active_)
    if (operation.phase != Phase::ended) operation.end({make_error(*failure_)});
  const auto end = [this](const OperationPtr& each) { end_unbegun(*each, make_error(*failure_)); };
  queue_.let_go();
  desk_.empty_pools();
  engine_.drop_prefixes();
  queue_.abandon(end);
  desk_.clear(end);
}

}  // namespace tinyloop::actors
