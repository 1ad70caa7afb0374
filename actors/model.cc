#include "tinyloop/model.h"

#include <boost/asio/system_executor.hpp>
#include <new>
#include <utility>

#include "actors/chunk_pump.h"
#include "actors/error.h"
#include "actors/model_state.h"
#include "actors/pool.h"
#include "actors/submit.h"

namespace tinyloop {

MemoryReport Model::memory() const {
  return state_ ? state_->replica().memory() : MemoryReport{};
}

HealthReport Model::health() const {
  return state_ ? state_->replica().health() : HealthReport{};
}

Statistics Model::statistics() const {
  return state_ ? state_->replica().statistics() : Statistics{};
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

void build(const ModelRef& model, const PrefixRequest& request,
           Completion<PrefixCache> completion) {
  actors::start_build(model, request, std::move(completion));
}

void build(const ModelRef& model, const ResumeRequest& request,
           Completion<ResumeHandle> completion) {
  actors::start_build(model, request, std::move(completion));
}

void deepen(const ModelRef& model, const ResumeHandle& handle, int32_t loops, WhenFull when_full,
            Completion<ResumeHandle> completion) {
  actors::start_deepen(model, handle, loops, when_full, std::move(completion));
}

void register_prefix(const ModelRef& model, const PoolRef& pool, const PrefixRequest& request,
                     Completion<int32_t> completion) {
  actors::start_register(model, pool, request, std::move(completion));
}

void pool_entry(const ModelRef& model, const PoolRef& pool, int32_t id,
                Completion<PoolEntryInfo> completion) {
  if (!model) return completion.post(actors::empty_model(), {});
  actors::LeaseRef lease;
  try {
    if (pool) lease = pool->lease(model->replica().inbox());
  } catch (const base::Failure& failure) {
    return completion.post(actors::make_error(failure.error()), {});
  }
  if (!lease) return completion.post({}, {});  // a pool without prefixes
  completion.keep(model);
  const auto reply = actors::make_reply(std::move(completion));
  auto message = std::make_unique<actors::Message>(actors::AskPool{std::move(lease), id, reply});
  if (error_code error = model->replica().send(message, model->closed_code())) {
    reply->set(error, {});
    reply->post();
  }
}

void release(const ReuseHandle& handle, Completion<> completion) {
  actors::start_release(handle, std::move(completion));
}

void trim(const ModelRef& model, Completion<size_t> completion) {
  if (!model) return completion.post(actors::empty_model(), 0);
  completion.keep(model);
  const auto reply = actors::make_reply(std::move(completion));
  auto message = std::make_unique<actors::Message>(actors::Trim{reply});
  if (error_code error = model->replica().send(message, model->closed_code())) {
    reply->set(error, 0);
    reply->post();
  }
}

void unload(const ModelRef& model, ShutdownMode mode, Completion<> completion) {
  if (!model) return completion.post(actors::empty_model());
  auto reply = actors::make_reply(std::move(completion));
  model->replica().request_close(mode);
  model->replica().when_closed(
      [reply, courier = model->engine().courier()] { courier->send_last(*reply); });
}

}  // namespace detail

}  // namespace tinyloop
