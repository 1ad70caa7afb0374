// What copies of a Model share.
#pragma once

#include <memory>

#include "actors/engine_state.h"
#include "actors/replica.h"
#include "actors/stream_operation.h"

namespace tinyloop::actors {

// Held by Models, streams and requests in flight; with the last of them the replica closes.
class ModelState {
 public:
  ModelState(std::shared_ptr<EngineState> engine, ReplicaRef replica)
      : engine_(std::move(engine)), replica_(std::move(replica)) {}
  ~ModelState() { replica_->request_close(ShutdownMode::cancel); }
  ModelState(const ModelState&) = delete;
  ModelState& operator=(const ModelState&) = delete;

  const EngineState& engine() const noexcept { return *engine_; }
  Replica& replica() const noexcept { return *replica_; }
  // What a request is told once the replica has gone.
  errc closed_code() const { return engine_->is_closed() ? errc::shutdown : errc::model_closed; }

 private:
  const std::shared_ptr<EngineState> engine_;
  const ReplicaRef replica_;
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
