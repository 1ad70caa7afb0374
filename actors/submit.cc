#include "actors/submit.h"

#include <utility>

#include "actors/error.h"
#include "actors/generate_operation.h"
#include "actors/score_operation.h"
#include "engine/request.h"

namespace tinyloop::actors {

namespace {

base::Result<engine::SequenceRequest> check(const Replica& replica,
                                            const GenerateRequest& request) {
  return engine::check_request(request, replica.limits(), replica.tokenizer().get());
}

base::Result<engine::SequenceRequest> check(const Replica& replica, const ScoreRequest& request) {
  return engine::check_request(request, replica.limits());
}

Operation::Terms terms_of(const GenerateRequest& request) {
  return {request.config.deadline, request.when_full};
}

Operation::Terms terms_of(const ScoreRequest& request) {
  return {request.deadline, request.when_full};
}

// What the exception being handled makes of a request: the broken bound, or no host memory.
error_code current_refusal() noexcept {
  try {
    throw;
  } catch (const base::Failure& failure) {
    return make_error(failure.error());
  } catch (...) {
    return make_error(current_error("submit"));
  }
}

template <class Kind, class Request, class Completion, class Result>
void start(const ModelRef& model, const Request& request, Completion completion, Result nothing) {
  if (!model) return completion.post(empty_model(), std::move(nothing));
  Replica& replica = model->replica();
  completion.keep(model);
  const auto slot = completion.slot();
  OperationPtr operation;  // owns the completion as soon as it exists
  try {
    operation.reset(
        new Kind(replica.inbox(), check(replica, request).value(), terms_of(request), completion));
    let_cancel(slot, operation);
    return replica.submit(operation, model->closed_code());
  } catch (...) {
    const error_code error = current_refusal();
    if (operation) return replica.reject(*operation, error);
    replica.counters().count_rejected(error);
    completion.post(error, std::move(nothing));
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
  start<GenerateOperation>(model, request, std::move(completion), GenerateResult{});
}

void start_score(const ModelRef& model, const ScoreRequest& request,
                 detail::Completion<ScoreResult> completion) {
  start<ScoreOperation>(model, request, std::move(completion), ScoreResult{});
}

boost::intrusive_ptr<StreamOperation> start_stream(const ModelRef& model,
                                                   const GenerateRequest& request,
                                                   std::vector<int32_t>* prompt) {
  if (!model) return failed_stream(nullptr, empty_model());
  Replica& replica = model->replica();
  auto checked = check(replica, request);
  if (!checked) {
    const error_code error = make_error(checked.error());
    replica.counters().count_rejected(error);
    return failed_stream(replica.inbox(), error);
  }
  if (prompt) *prompt = checked->tokens;
  boost::intrusive_ptr<StreamOperation> operation(
      new StreamOperation(replica.inbox(), std::move(*checked), terms_of(request)));
  replica.submit(operation, model->closed_code());
  return operation;
}

}  // namespace tinyloop::actors
