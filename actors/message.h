// What may be in a replica's mailbox: a closed set, one function of ReplicaActor per kind.
#pragma once

#include <functional>
#include <variant>

#include "actors/operation.h"
#include "actors/reply.h"
#include "actors/trim_call.h"

namespace tinyloop::actors {

// A request, checked and ready to queue.
struct Run {
  OperationPtr operation;
};

// Give unused page slabs back.
struct Trim {
  std::shared_ptr<TrimCall> call;
};

// Finish what has been accepted and give everything back; then, if that is asked, load the model
// again.
struct Maintain {
  enum Kind : uint8_t { drain, reload } kind;
  ReplyPtr<> reply;
};

// What a pool holds under an id.
struct AskPool {
  LeaseRef pool;
  int32_t id;
  ReplyPtr<PoolEntryInfo> reply;
};

// Copy the trace into `room`, whose memory the sender has taken.
struct ReadTrace {
  ReplyPtr<Trace> reply;
  Trace room;
};

// Runs `visit` on the replica's thread, between two steps: fault injection, dumps of plans. What it
// throws fails the replica.
struct Visit {
  std::function<void(engine::BatchEngine&)> visit;
};

using Message = std::variant<Run, Trim, AskPool, Maintain, ReadTrace, Visit>;

}  // namespace tinyloop::actors
