#include "tinyloop/model.h"

#include <boost/asio/system_executor.hpp>
#include <new>
#include <utility>

#include "actors/chunk_pump.h"
#include "actors/error.h"
#include "actors/model_state.h"
#include "actors/submit.h"

namespace tinyloop {

MemoryReport Model::memory() const {
  return state_ ? state_->replica().memory() : MemoryReport{};
}

HealthReport Model::health() const {
  return state_ ? state_->replica().health() : HealthReport{};
}

Statistics Model::statistics() const {
  return state_ ? state_->replica().counters().snapshot() : Statistics{};
}

ModelInfo Model::info() const {
  return state_ ? state_->replica().info() : ModelInfo{};
}

Tokenizer Model::tokenizer() const {
  return state_ ? Tokenizer(state_->replica().tokenizer()) : Tokenizer();
}

TokenStream Model::stream(const GenerateRequest& request) const {
  return TokenStream(
      std::make_shared<actors::StreamHandle>(state_, actors::start_stream(state_, request)));
}

namespace detail {

boost::asio::any_io_executor default_executor(const ModelRef& model) {
  if (!model) return boost::asio::system_executor();
  return model->engine().executor();
}

void generate(const ModelRef& model, const GenerateRequest& request,
              Completion<GenerateResult> completion) {
  actors::start_generate(model, request, std::move(completion));
}

void generate(const ModelRef& model, const GenerateRequest& request, OnChunk on_chunk,
              Completion<GenerateResult> completion) {
  actors::ChunkPump::start(model, request, std::move(on_chunk), std::move(completion));
}

void score(const ModelRef& model, const ScoreRequest& request, Completion<ScoreResult> completion) {
  actors::start_score(model, request, std::move(completion));
}

void trim(const ModelRef& model, Completion<size_t> completion) {
  if (!model) return completion.post(actors::empty_model(), 0);
  completion.keep(model);
  auto message = std::make_unique<actors::Message>(actors::Trim{std::move(completion)});
  if (error_code error = model->replica().send(message, model->closed_code()))
    std::get<actors::Trim>(*message).completion.post(error, 0);
}

void unload(const ModelRef& model, ShutdownMode mode, Completion<> completion) {
  if (!model) return completion.post(actors::empty_model());
  model->replica().request_close(mode);
  const auto shared = std::make_shared<Completion<>>(std::move(completion));
  model->replica().when_closed([shared] { shared->post({}); });
}

}  // namespace detail

}  // namespace tinyloop
