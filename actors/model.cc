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

namespace {

// Sends the replica a message that it answers through the reply.
template <class Answer, class MakeMessage>
void ask(const detail::ModelRef& model, detail::Completion<Answer> completion,
         MakeMessage&& make_message) {
  completion.keep(model);
  const auto reply = actors::make_reply(std::move(completion));
  if (!reply) return;
  error_code error;
  try {
    auto message = std::make_unique<actors::Message>(make_message(reply));
    error = model->replica().send(message, model->closed_code());
  } catch (const std::bad_alloc&) {
    error = actors::make_error(errc::out_of_memory, {});
  }
  if (!error) return;
  reply->set(error, {});
  reply->post();
}

}  // namespace

MemoryReport Model::memory() const {
  return state_ ? state_->replica().memory() : MemoryReport{};
}

HealthReport Model::health() const {
  return state_ ? state_->replica().health() : HealthReport{};
}

Statistics Model::statistics() const {
  return state_ ? state_->replica().statistics() : Statistics{};
}

Metrics Model::metrics() const {
  return state_ ? state_->replica().metrics() : Metrics{};
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

void deepen(const ModelRef& model, const DeepenRequest& request,
            Completion<ResumeHandle> completion) {
  actors::start_deepen(model, request, std::move(completion));
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
  ask(model, std::move(completion), [&](const actors::ReplyPtr<PoolEntryInfo>& reply) {
    return actors::AskPool{std::move(lease), id, reply};
  });
}

void release(const ReuseHandle& handle, Completion<> completion) {
  actors::start_release(handle, std::move(completion));
}

void trim(const ModelRef& model, Completion<size_t> completion) {
  if (!model) return completion.post(actors::empty_model(), 0);
  ask(model, std::move(completion),
      [](const actors::ReplyPtr<size_t>& reply) { return actors::Trim{reply}; });
}

void read_trace(const ModelRef& model, Completion<Trace> completion) {
  if (!model) return completion.post(actors::empty_model(), {});
  const actors::Replica& replica = model->replica();
  ask(model, std::move(completion), [&](const actors::ReplyPtr<Trace>& reply) {
    Trace room{.model = replica.info().name, .device = replica.info().device};
    room.events.resize(replica.trace_events());
    return actors::ReadTrace{reply, std::move(room)};
  });
}

void unload(const ModelRef& model, ShutdownMode mode, Completion<> completion) {
  if (!model) return completion.post(actors::empty_model());
  model->replica().request_close(mode);
  const auto reply = actors::make_reply(std::move(completion));
  if (!reply) return;
  model->replica().when_closed(
      [reply, courier = model->engine().courier()] { courier->send_last(*reply); });
}

}  // namespace detail

}  // namespace tinyloop
