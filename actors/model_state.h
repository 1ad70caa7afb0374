// What copies of a Model share.
#pragma once

#include <memory>

#include "actors/engine_state.h"
#include "actors/replica_group.h"
#include "actors/stream_operation.h"

namespace tinyloop::actors {

// Held by Models, streams and requests in flight; with the last of them the replicas close.
class ModelState {
 public:
  ModelState(std::shared_ptr<EngineState> engine, GroupRef replicas)
      : engine_(std::move(engine)), replicas_(std::move(replicas)) {}
  ~ModelState() { replicas_->request_close(ShutdownMode::cancel); }
  ModelState(const ModelState&) = delete;
  ModelState& operator=(const ModelState&) = delete;

  const EngineState& engine() const noexcept { return *engine_; }
  const ReplicaGroup& replicas() const noexcept { return *replicas_; }
  // What all replicas have in common is the first one's: info, limits, tokenizer.
  Replica& replica(size_t number = 0) const noexcept { return (*replicas_)[number]; }
  // What a request is told once the replicas have gone.
  errc closed_code() const { return engine_->is_closed() ? errc::shutdown : errc::model_closed; }

 private:
  const std::shared_ptr<EngineState> engine_;
  const GroupRef replicas_;
};

// What a TokenStream holds.
class StreamHandle {
 public:
  StreamHandle(std::shared_ptr<ModelState> model, boost::intrusive_ptr<StreamOperation> operation)
      : model_(std::move(model)), operation_(std::move(operation)) {}
  const std::shared_ptr<ModelState>& model() const noexcept { return model_; }
  StreamOperation& operation() const noexcept { return *operation_; }

 private:
  const std::shared_ptr<ModelState> model_;
  const boost::intrusive_ptr<StreamOperation> operation_;
};

}  // namespace tinyloop::actors
