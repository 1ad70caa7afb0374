#include "tinyloop/model.h"

#include <boost/asio/system_executor.hpp>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "actors/chunk_pump.h"
#include "actors/error.h"
#include "actors/model_state.h"
#include "actors/pool.h"
#include "actors/pool_use.h"
#include "actors/submit.h"

namespace tinyloop {

using actors::ModelState;
using actors::Replica;
using actors::ReplicaRef;

namespace {

// Why the replica has not been sent make_message(), if it has not.
template <class MakeMessage>
error_code send(const ModelState& model, Replica& replica, MakeMessage&& make_message) {
  try {
    auto message = std::make_unique<actors::Message>(make_message());
    return replica.send(message, model.closed_code());
  } catch (const std::bad_alloc&) {
    return actors::make_error(errc::out_of_memory, {});
  }
}

// Sends the replica a message that it answers through the reply.
template <class... Answer, class MakeMessage>
void ask(const detail::ModelRef& model, Replica& replica, detail::Completion<Answer...> completion,
         MakeMessage&& make_message) {
  completion.keep(model);
  const auto reply = actors::make_reply(std::move(completion));
  if (!reply) return;
  const error_code error = send(*model, replica, [&] { return make_message(reply); });
  if (!error) return;
  reply->set(error, Answer{}...);
  reply->post();
}

std::optional<error_code> unknown_replica(const ModelState& model, size_t replica) {
  const size_t count = model.replicas().size();
  if (replica < count) return std::nullopt;
  return actors::make_error(
      errc::invalid_argument,
      "replica: " + std::to_string(replica) + ", allowed: 0 to " + std::to_string(count - 1));
}

void maintain(const detail::ModelRef& model, size_t replica, actors::Maintain::Kind kind,
              detail::Completion<> completion) {
  if (!model) return completion.post(actors::empty_model());
  if (const auto error = unknown_replica(*model, replica)) return completion.post(*error);
  ask(model, model->replica(replica), std::move(completion), [&](const actors::ReplyPtr<>& reply) {
    return actors::Maintain{kind, reply};
  });
}

}  // namespace

MemoryReport Model::memory() const {
  return state_ ? state_->replicas().memory() : MemoryReport{};
}

HealthReport Model::health() const {
  return state_ ? state_->replicas().health() : HealthReport{};
}

Statistics Model::statistics() const {
  return state_ ? state_->replicas().statistics() : Statistics{};
}

std::vector<Metrics> Model::metrics() const {
  return state_ ? state_->replicas().metrics() : std::vector<Metrics>{};
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
  const auto replicas = int32_t(model->replicas().size());
  if (id < 1 || !pool) return completion.post({}, {});
  Replica& replica = model->replica(size_t(actors::replica_of_id(id, replicas)));
  actors::LeaseRef lease;
  try {
    lease = pool->lease(model->replicas(), replica);
  } catch (const base::Failure& failure) {
    return completion.post(actors::make_error(failure.error()), {});
  }
  if (!lease) return completion.post({}, {});  // nothing of the pool is there
  ask(model, replica, std::move(completion), [&](const actors::ReplyPtr<PoolEntryInfo>& reply) {
    return actors::AskPool{std::move(lease), actors::id_in_replica(id, replicas), reply};
  });
}

void release(const ReuseHandle& handle, Completion<> completion) {
  actors::start_release(handle, std::move(completion));
}

void trim(const ModelRef& model, Completion<size_t> completion) {
  if (!model) return completion.post(actors::empty_model(), 0);
  completion.keep(model);
  const auto reply = actors::make_reply(std::move(completion));
  if (!reply) return;
  std::shared_ptr<actors::TrimCall> call;
  try {
    call = std::make_shared<actors::TrimCall>(reply, model->replicas().size());
  } catch (const std::bad_alloc&) {
    reply->set(actors::make_error(errc::out_of_memory, {}), 0);
    return reply->post();
  }
  for (const ReplicaRef& replica : model->replicas().all()) {
    const error_code error = send(*model, *replica, [&] { return actors::Trim{call}; });
    if (!error) continue;
    if (const auto last = call->answered(error, 0)) last->post();
  }
}

void drain_replica(const ModelRef& model, size_t replica, Completion<> completion) {
  maintain(model, replica, actors::Maintain::drain, std::move(completion));
}

void reload_replica(const ModelRef& model, size_t replica, Completion<> completion) {
  maintain(model, replica, actors::Maintain::reload, std::move(completion));
}

void read_trace(const ModelRef& model, size_t replica, Completion<Trace> completion) {
  if (!model) return completion.post(actors::empty_model(), {});
  if (const auto error = unknown_replica(*model, replica)) return completion.post(*error, {});
  Replica& asked = model->replica(replica);
  ask(model, asked, std::move(completion), [&](const actors::ReplyPtr<Trace>& reply) {
    Trace room{.model = asked.info().name, .device = asked.info().device};
    room.events.resize(asked.trace_events());
    return actors::ReadTrace{reply, std::move(room)};
  });
}

void unload(const ModelRef& model, ShutdownMode mode, Completion<> completion) {
  if (!model) return completion.post(actors::empty_model());
  model->replicas().request_close(mode);
  const auto reply = actors::make_reply(std::move(completion));
  if (!reply) return;
  model->replicas().when_closed(
      [reply, courier = model->engine().courier()] { courier->send_last(*reply); });
}

}  // namespace detail

}  // namespace tinyloop
