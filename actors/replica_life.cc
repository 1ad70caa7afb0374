#include "actors/replica_life.h"

#include <utility>

#include "actors/error.h"

namespace tinyloop::actors {

Loop::Next ReplicaLife::turn() noexcept {
  switch (stage_) {
    case Stage::loads:
      load();
      return {};
    case Stage::serves:
      return serve();
    case Stage::waits:
      return wait();
    case Stage::ends:
      break;
  }
  if (maintenance_) {
    answer(*std::exchange(maintenance_, std::nullopt), make_error(Replica::unloading()));
  }
  replica_->end();
  return {Next::end};
}

void ReplicaLife::load() noexcept {
  std::optional<base::Error> error = try_load();
  stage_ = error ? Stage::waits : Stage::serves;
  if (loaded_) {  // the first time
    if (error) {
      stage_ = Stage::ends;
      replica_->inbox()->mailbox.close();
    }
    // What it holds must not live as long as the replica serves.
    std::exchange(loaded_, nullptr)(std::move(error));
    return;
  }
  const error_code outcome = error ? make_error(*error) : error_code();
  if (error) replica_->mark_failed(*error);
  answer(*std::exchange(maintenance_, std::nullopt), outcome);
}

std::optional<base::Error> ReplicaLife::try_load() noexcept {
  try {
    engine_ = replica_->load();
    engine_->number_prefixes_from(next_prefix_);
    actor_.emplace(*replica_, *engine_);
    replica_->mark_serving();
    return std::nullopt;
  } catch (...) {
    auto error = current_error("load");
    replica_->say(base::LogLevel::debug, [&] { return error.detail; });
    engine_.reset();
    replica_->release_backend();
    return error;
  }
}

Loop::Next ReplicaLife::serve() noexcept {
  const Next next = actor_->turn();
  if (next.kind == Next::end) {
    leave();
    return {};
  }
  return next;
}

// The actor has nothing more to do: it was told to close, or to make way.
void ReplicaLife::leave() noexcept {
  maintenance_ = actor_->take_maintenance();
  next_prefix_ = engine_->next_prefix();
  actor_.reset();
  engine_.reset();
  replica_->release_backend();
  if (replica_->close_requested()) {
    replica_->inbox()->mailbox.close();
    stage_ = Stage::ends;
    receive();  // what came behind the actor's back
  } else if (maintenance_->kind == Maintain::reload) {
    replica_->mark_loading();
    stage_ = Stage::loads;
  } else {
    replica_->mark_drained();
    stage_ = Stage::waits;
    answer(*std::exchange(maintenance_, std::nullopt), {});
  }
}

Loop::Next ReplicaLife::wait() noexcept {
  const bool closing = replica_->close_requested().has_value();
  if (closing) replica_->inbox()->mailbox.close();
  receive();
  if (closing) {
    stage_ = Stage::ends;
  } else if (maintenance_) {
    replica_->mark_loading();
    stage_ = Stage::loads;
  } else {
    return {Next::sleep};
  }
  return {};
}

void ReplicaLife::receive() noexcept {
  Inbox& inbox = *replica_->inbox();
  inbox.releases.drain([](Lease& lease) { Lease::finish(lease); });
  inbox.cancels.drain([](Operation& operation) { operation.cancel_reached(); });
  inbox.mailbox.drain([this](auto& message) { take(message); });
}

void ReplicaLife::take(Run& message) noexcept {
  Operation& operation = *message.operation;
  operation.request.let_go();
  replica_->inbox()->mailbox.left_queue();
  replica_->reject(operation, make_error(replica_->told(operation, refusal())), OnThread::replicas);
}

void ReplicaLife::take(Trim& message) noexcept {
  if (const auto reply = message.call->answered(make_error(refusal()), 0)) {
    replica_->inbox()->courier->send(*reply);
  }
}

void ReplicaLife::take(AskPool& message) noexcept {
  message.reply->set({}, {});
  message.pool.reset();
  replica_->inbox()->courier->send(*message.reply);
}

void ReplicaLife::take(ReadTrace& message) noexcept {
  if (const auto& tracer = replica_->inbox()->tracer) tracer->read(message.room);
  message.reply->set({}, std::move(message.room));
  replica_->inbox()->courier->send(*message.reply);
}

void ReplicaLife::take(Maintain& message) noexcept {
  if (stage_ == Stage::ends) {
    answer(std::move(message), make_error(Replica::unloading()));
  } else if (maintenance_) {
    answer(std::move(message), make_error(with_sentence(
                                   errc::overloaded, "the replica is being loaded again already")));
  } else if (message.kind == Maintain::drain) {
    replica_->mark_drained();
    answer(std::move(message), {});
  } else {
    maintenance_ = std::move(message);
  }
}

void ReplicaLife::answer(Maintain maintenance, error_code error) noexcept {
  maintenance.reply->set(error);
  replica_->inbox()->courier->send(*maintenance.reply);
}

base::Error ReplicaLife::refusal() const noexcept {
  if (auto error = replica_->refusal(errc::model_closed)) return *std::move(error);
  return with_sentence(errc::shutdown, "the replica is being loaded again");
}

}  // namespace tinyloop::actors
