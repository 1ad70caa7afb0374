// What a replica's thread does: take what is in the inbox, begin what there is room for, run one
// step, hand out what has ended, and sleep when there is nothing to do.
#pragma once

#include "actors/loop.h"
#include "actors/message.h"
#include "actors/operation.h"
#include "actors/pool_desk.h"
#include "actors/request_queue.h"
#include "engine/batch_engine.h"

namespace tinyloop::actors {

class Replica;

// Lives and dies on the replica's thread. Outcomes are delivered between steps, when counters and
// memory figures already show them.
class ReplicaActor {
 public:
  ReplicaActor(Replica& replica, engine::BatchEngine& engine);
  ~ReplicaActor();
  ReplicaActor(const ReplicaActor&) = delete;
  ReplicaActor& operator=(const ReplicaActor&) = delete;

  // Ends when the replica has been asked to close, or to make way, and every request has completed.
  Loop::Next turn() noexcept;
  // What it has made way for, if anything.
  std::optional<Maintain> take_maintenance() { return std::exchange(maintenance_, std::nullopt); }

 private:
  bool work();
  bool is_leaving() const noexcept { return closing_ || maintenance_; }
  TimePoint now() const noexcept;

  // Inbox.
  void receive();
  void take(Run& message);
  void accept(Operation& operation);
  std::optional<base::Error> route(Operation& operation);
  void finish_registered(Operation& operation);
  bool find_base(Operation& operation);
  void let_go(Lease& lease) noexcept;
  void take(Trim& message);
  void take(AskPool& message);
  void take(Maintain& message);
  void take(ReadTrace& message);
  void take(Visit& message);
  void cancel(Operation& operation);
  void follow_close_request();

  bool relieve();

  // One turn's work.
  void take_up_parked();
  void expire();
  void begin();
  void begin_all();
  void begin_one(OperationPtr operation);
  void begin_failed(Operation& operation, const base::Error& error) noexcept;
  void step();
  void sweep();

  // Ends.
  void end_unbegun(Operation& operation, error_code error);
  void complete(Operation& operation);
  void fail(const base::Error& cause) noexcept;

  Replica& replica_;
  engine::BatchEngine& engine_;
  PoolDesk desk_;
  RequestQueue queue_;
  OperationList active_;   // begun, held alive
  uint64_t arrivals_ = 0;  // requests taken from the inbox
  bool closing_ = false;
  std::optional<Maintain> maintenance_;  // asked for: to make way once all requests have ended
  std::optional<base::Error> failure_;
};

}  // namespace tinyloop::actors
