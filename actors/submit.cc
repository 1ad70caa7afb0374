#include "actors/submit.h"

#include <string>
#include <type_traits>
#include <utility>

#include "actors/build_operation.h"
#include "actors/error.h"
#include "actors/generate_operation.h"
#include "actors/handle.h"
#include "actors/register_operation.h"
#include "actors/score_operation.h"
#include "base/bounds.h"
#include "engine/request.h"

namespace tinyloop::actors {

namespace {

// A request that has passed every check, and what it begins with.
struct Checked {
  engine::SequenceRequest request;
  LeaseRef base{};
  PoolUse pool{};
};

// The lease of a handle that this replica's requests may use. Throws base::Failure.
LeaseRef lease_of(const Replica& replica, const Handle& handle) {
  if (handle.inbox() != replica.inbox()) {
    throw base::Failure(errc::wrong_model, "the handle was made by another model");
  }
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

// What a request has to do with its pool. One that is not automatic and has no prefixes yet is as
// good as none.
PoolUse use_of(Replica& replica, const PrefixPool& pool) {
  if (!pool) return {};
  const std::shared_ptr<PoolBook>& book = pool.ref()->book();
  LeaseRef lease = book->options.automatic ? pool.ref()->bind(replica.inbox())
                                           : pool.ref()->lease(replica.inbox());
  if (!lease) {
    ++book->misses;
    replica.counters().count_lookup(0);
  }
  return {book, std::move(lease)};
}

Checked check(Replica& replica, const GenerateRequest& request) {
  const engine::Tokenizer* tokenizer = replica.tokenizer().get();
  const Handle* handle = handle_of(request);
  if (!handle) {
    auto checked = engine::check_request(request, replica.limits(), tokenizer).value();
    return {std::move(checked), nullptr, use_of(replica, request.pool)};
  }
  LeaseRef base = lease_of(replica, *handle);
  const engine::BaseTerms terms = handle->terms();
  return {engine::check_request(request, replica.limits(), tokenizer, &terms).value(),
          std::move(base)};
}

Checked check(const Replica& replica, const ScoreRequest& request) {
  return {engine::check_request(request, replica.limits()).value(), nullptr};
}

Checked check(const Replica& replica, const PrefixRequest& request) {
  return {engine::check_request(request, replica.limits(), replica.tokenizer().get()).value(),
          nullptr};
}

Checked check(const Replica& replica, const ResumeRequest& request) {
  return {engine::check_request(request, replica.limits(), replica.tokenizer().get()).value(),
          nullptr};
}

// A prefix for a pool.
struct RegisterRequest {
  const detail::PoolRef& pool;
  const PrefixRequest& prefix;
};

Checked check(const Replica& replica, const RegisterRequest& request) {
  if (!request.pool) throw base::Failure(errc::invalid_argument, "pool: empty");
  Checked checked = check(replica, request.prefix);
  checked.request.keep.reset();  // once it is known that the pool has not got it
  checked.pool = {request.pool->book(), request.pool->bind(replica.inbox()), true};
  return checked;
}

Checked check(const Replica& replica, const DeepenRequest& request) {
  if (!request.handle) throw base::Failure(errc::invalid_argument, "handle: empty");
  const Handle& handle = *request.handle.ref();
  LeaseRef base = lease_of(replica, handle);
  return {engine::check_deepen(handle.terms(), request.loops, replica.limits()).value(),
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
OperationPtr make_operation(Replica& replica, Checked checked, Operation::Terms terms,
                            detail::Completion<Kind>& completion) {
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
  operation->pool = std::move(checked.pool);
  return operation;
}

template <class Request, class Result>
void start(const ModelRef& model, const Request& request, detail::Completion<Result> completion) {
  if (!model) return completion.post(empty_model(), {});
  Replica& replica = model->replica();
  completion.keep(model);
  const auto slot = completion.slot();
  OperationPtr operation;  // owns the completion as soon as it exists
  try {
    operation = make_operation(replica, check(replica, request), terms_of(request), completion);
    let_cancel(slot, operation);
    return replica.submit(operation, model->closed_code());
  } catch (...) {
    const error_code error = make_error(current_refusal("submit"));
    if (operation) return replica.reject(*operation, error);
    replica.note_refused(error);
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
  if (const LeaseRef lease = handle ? handle.ref()->take_lease() : nullptr) {
    lease->released = reply;
  } else {
    reply->set({});
    reply->post();
  }
}

boost::intrusive_ptr<StreamOperation> start_stream(const ModelRef& model,
                                                   const GenerateRequest& request,
                                                   std::vector<int32_t>* prompt) {
  if (!model) return failed_stream(nullptr, empty_model());
  Replica& replica = model->replica();
  Checked checked;
  try {
    checked = check(replica, request);
  } catch (const base::Failure& failure) {
    const error_code error = make_error(failure.error());
    replica.note_refused(error);
    return failed_stream(replica.inbox(), error);
  }
  if (prompt) *prompt = checked.request.tokens;
  boost::intrusive_ptr<StreamOperation> operation(
      new StreamOperation(replica.inbox(), std::move(checked.request), terms_of(request)));
  operation->base = std::move(checked.base);
  operation->pool = std::move(checked.pool);
  replica.submit(operation, model->closed_code());
  return operation;
}

}  // namespace tinyloop::actors
