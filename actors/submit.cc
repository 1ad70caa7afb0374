#include "actors/submit.h"

#include <string>
#include <type_traits>
#include <utility>

#include "actors/build_operation.h"
#include "actors/error.h"
#include "actors/generate_operation.h"
#include "actors/handle.h"
#include "actors/register_operation.h"
#include "actors/routing.h"
#include "actors/score_operation.h"
#include "base/bounds.h"
#include "engine/request.h"

namespace tinyloop::actors {

namespace {

// A request that has passed every check, what it begins with, and where it goes.
struct Checked {
  engine::SequenceRequest request;
  Route route;
  LeaseRef base{};
};

const engine::RequestLimits& limits(const ReplicaGroup& group) {
  return group[0].limits();
}

const engine::Tokenizer* tokenizer(const ReplicaGroup& group) {
  return group[0].tokenizer().get();
}

// Throws base::Failure.
LeaseRef lease_of(const Handle& handle) {
  LeaseRef lease = handle.lease();
  if (!lease) throw base::Failure(errc::handle_lost, "the handle has been released");
  return lease;
}

// The handle of request.prefix or request.resume; null: neither.
const Handle* handle_of(const GenerateRequest& request) {
  if (int(bool(request.prefix)) + int(bool(request.resume)) + int(bool(request.pool)) > 1) {
    base::refuse("prefix, resume, pool", "several are set", "at most one");
  }
  if (request.resume_loops && !request.resume) {
    base::refuse("resume_loops", std::to_string(*request.resume_loops), "only with resume");
  }
  return request.prefix ? request.prefix.ref().get() : request.resume.ref().get();
}

Checked check(const ReplicaGroup& group, const GenerateRequest& request) {
  const Handle* handle = handle_of(request);
  if (!handle) {
    auto checked = engine::check_request(request, limits(group), tokenizer(group)).value();
    Route to = route(group, request.pool.ref(), checked);
    if (to.pool.book && !to.pool.lease) {
      ++to.pool.book->misses;
      to.replica().counters().count_lookup(0);
    }
    return {std::move(checked), std::move(to)};
  }
  Route to = route(group, *handle);
  LeaseRef base = lease_of(*handle);
  const engine::BaseTerms terms = handle->terms();
  return {engine::check_request(request, limits(group), tokenizer(group), &terms).value(),
          std::move(to), std::move(base)};
}

Checked check(const ReplicaGroup& group, const ScoreRequest& request) {
  return {engine::check_request(request, limits(group)).value(), {group.enter()}};
}

Checked check(const ReplicaGroup& group, const PrefixRequest& request) {
  return {engine::check_request(request, limits(group), tokenizer(group)).value(), {group.enter()}};
}

Checked check(const ReplicaGroup& group, const ResumeRequest& request) {
  return {engine::check_request(request, limits(group), tokenizer(group)).value(), {group.enter()}};
}

// A prefix for a pool.
struct RegisterRequest {
  const detail::PoolRef& pool;
  const PrefixRequest& prefix;
};

Checked check(const ReplicaGroup& group, const RegisterRequest& request) {
  if (!request.pool) throw base::Failure(errc::invalid_argument, "pool: empty");
  auto checked = engine::check_request(request.prefix, limits(group), tokenizer(group)).value();
  checked.keep.reset();  // once it is known that the pool has not got it
  Route to = route_registration(group, request.pool, checked);
  to.pool.registers = true;
  return {std::move(checked), std::move(to)};
}

Checked check(const ReplicaGroup& group, const DeepenRequest& request) {
  if (!request.handle) throw base::Failure(errc::invalid_argument, "handle: empty");
  const Handle& handle = *request.handle.ref();
  Route to = route(group, handle);
  LeaseRef base = lease_of(handle);
  return {engine::check_deepen(handle.terms(), request, limits(group)).value(), std::move(to),
          std::move(base)};
}

Operation::Terms terms_of(const GenerateRequest& request) {
  return {request.config.deadline, request.when_full};
}

Operation::Terms terms_of(const ScoreRequest& request) {
  return {request.deadline, request.when_full};
}

Operation::Terms terms_of(const PrefixRequest& request) {
  return {request.deadline, request.when_full};
}

Operation::Terms terms_of(const ResumeRequest& request) {
  return terms_of(request.prefix);
}

Operation::Terms terms_of(const RegisterRequest& request) {
  return terms_of(request.prefix);
}

Operation::Terms terms_of(const DeepenRequest& request) {
  return {request.deadline, request.when_full};
}

// What a request that keeps a prefix leaves to its caller.
std::shared_ptr<Handle> handle_for(const Replica& replica, const engine::SequenceRequest& request) {
  const engine::PrefixShape shape = request.kept_shape();
  return std::make_shared<Handle>(replica.inbox(), request.tokens, shape,
                                  replica.prefix_sizes().bytes_of(shape));
}

template <class Kind>
OperationPtr make_operation(Checked& checked, Operation::Terms terms,
                            detail::Completion<Kind>& completion) {
  const Replica& replica = checked.route.replica();
  OperationPtr operation;
  if constexpr (std::is_same_v<Kind, GenerateResult>) {
    operation.reset(
        new GenerateOperation(replica.inbox(), std::move(checked.request), terms, completion));
  } else if constexpr (std::is_same_v<Kind, ScoreResult>) {
    operation.reset(
        new ScoreOperation(replica.inbox(), std::move(checked.request), terms, completion));
  } else if constexpr (std::is_same_v<Kind, int32_t>) {
    operation.reset(
        new RegisterOperation(replica.inbox(), std::move(checked.request), terms, completion));
  } else {
    auto handle = handle_for(replica, checked.request);
    operation.reset(new BuildOperation<Kind>(replica.inbox(), std::move(checked.request), terms,
                                             std::move(handle), completion));
  }
  operation->base = std::move(checked.base);
  operation->pool = std::move(checked.route.pool);
  return operation;
}

template <class Request, class Result>
void start(const ModelRef& model, const Request& request, detail::Completion<Result> completion) {
  if (!model) return completion.post(empty_model(), {});
  Replica* replica = &model->replica();  // counts what is refused before it has a place to go to
  completion.keep(model);
  const auto slot = completion.slot();
  OperationPtr operation;  // owns the completion as soon as it exists
  try {
    Checked checked = check(model->replicas(), request);
    replica = &checked.route.replica();
    operation = make_operation(checked, terms_of(request), completion);
    let_cancel(slot, operation);
    return replica->submit(operation, model->closed_code(), checked.route.way.is_let_in());
  } catch (...) {
    const error_code error = make_error(current_refusal("submit"));
    if (operation) return replica->reject(*operation, error);
    replica->note_refused(error);
    completion.post(error, {});
  }
}

boost::intrusive_ptr<StreamOperation> failed_stream(std::shared_ptr<Inbox> inbox,
                                                    error_code error) {
  engine::SequenceRequest nothing;
  nothing.config.max_tokens = 1;
  boost::intrusive_ptr<StreamOperation> operation(
      new StreamOperation(std::move(inbox), std::move(nothing), {}));
  operation->end({error});
  operation->complete(OnThread::callers);
  return operation;
}

}  // namespace

void let_cancel(boost::asio::cancellation_slot slot, OperationPtr operation) {
  if (!slot.is_connected()) return;
  slot.assign([operation = std::move(operation)](boost::asio::cancellation_type type) {
    if (type != boost::asio::cancellation_type::none) operation->request_cancel();
  });
}

error_code empty_model() noexcept {
  return make_error(errc::model_closed, "the Model is empty");
}

void start_generate(const ModelRef& model, const GenerateRequest& request,
                    detail::Completion<GenerateResult> completion) {
  start(model, request, std::move(completion));
}

void start_score(const ModelRef& model, const ScoreRequest& request,
                 detail::Completion<ScoreResult> completion) {
  start(model, request, std::move(completion));
}

void start_build(const ModelRef& model, const PrefixRequest& request,
                 detail::Completion<PrefixCache> completion) {
  start(model, request, std::move(completion));
}

void start_build(const ModelRef& model, const ResumeRequest& request,
                 detail::Completion<ResumeHandle> completion) {
  start(model, request, std::move(completion));
}

void start_deepen(const ModelRef& model, const DeepenRequest& request,
                  detail::Completion<ResumeHandle> completion) {
  start(model, request, std::move(completion));
}

void start_register(const ModelRef& model, const detail::PoolRef& pool,
                    const PrefixRequest& request, detail::Completion<int32_t> completion) {
  start(model, RegisterRequest{pool, request}, std::move(completion));
}

void start_release(const ReuseHandle& handle, detail::Completion<> completion) {
  const auto reply = make_reply(std::move(completion));
  if (!reply) return;
  if (LeaseRef lease = handle ? handle.ref()->take_lease() : nullptr) {
    lease->released = reply;
    handle.ref()->give_up(std::move(lease));
  } else {
    reply->set({});
    reply->post();
  }
}

boost::intrusive_ptr<StreamOperation> start_stream(const ModelRef& model,
                                                   const GenerateRequest& request,
                                                   std::vector<int32_t>* prompt) {
  if (!model) return failed_stream(nullptr, empty_model());
  Checked checked;
  try {
    checked = check(model->replicas(), request);
  } catch (...) {
    const error_code error = make_error(current_refusal("submit"));
    model->replica().note_refused(error);
    return failed_stream(model->replica().inbox(), error);
  }
  if (prompt) *prompt = checked.request.tokens;
  Replica& replica = checked.route.replica();
  boost::intrusive_ptr<StreamOperation> operation(
      new StreamOperation(replica.inbox(), std::move(checked.request), terms_of(request)));
  operation->base = std::move(checked.base);
  operation->pool = std::move(checked.route.pool);
  replica.submit(operation, model->closed_code(), checked.route.way.is_let_in());
  return operation;
}

}  // namespace tinyloop::actors
