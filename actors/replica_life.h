// What a replica's thread does from its first turn to its last: it loads the model, serves, and
// gives everything back; drained or failed, it waits to be loaded again.
#pragma once

#include <memory>
#include <optional>

#include "actors/loop.h"
#include "actors/replica.h"
#include "actors/replica_actor.h"

namespace tinyloop::actors {

class ReplicaLife final : public Loop {
 public:
  ReplicaLife(ReplicaRef replica, Replica::Loaded loaded)
      : replica_(std::move(replica)), loaded_(std::move(loaded)) {}

  Next turn() noexcept override;
  Waker& waker() noexcept override { return replica_->inbox()->waker; }

 private:
  enum class Stage : uint8_t { loads, serves, waits, ends };

  void load() noexcept;
  Next serve() noexcept;
  Next wait() noexcept;
  void leave() noexcept;
  std::optional<base::Error> try_load() noexcept;

  // What is in the inbox while nobody serves.
  void receive() noexcept;
  void take(Run& message) noexcept;
  void take(Trim& message) noexcept;
  void take(AskPool& message) noexcept;
  void take(ReadTrace& message) noexcept;
  void take(Visit&) noexcept {}
  void take(Maintain& message) noexcept;
  void answer(Maintain maintenance, error_code error) noexcept;
  base::Error refusal() const noexcept;

  const ReplicaRef replica_;
  Replica::Loaded loaded_;
  Stage stage_ = Stage::loads;
  std::unique_ptr<engine::BatchEngine> engine_;
  std::optional<ReplicaActor> actor_;
  std::optional<Maintain> maintenance_;  // under way: a reload, to be answered when it is done
  engine::PrefixId next_prefix_ = 1;     // prefixes of an earlier engine are not taken for new ones
};

}  // namespace tinyloop::actors
