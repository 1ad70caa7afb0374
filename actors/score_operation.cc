#include "actors/score_operation.h"

#include <utility>

namespace tinyloop::actors {

ScoreOperation::ScoreOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked,
                               Terms how, detail::Completion<ScoreResult>& completion)
    : Operation(std::move(inbox), std::move(checked), how) {
  logprobs_.reserve(prompt_tokens_);
  set_address(completion.executor());
  completion_ = std::move(completion);
}

void ScoreOperation::on_score(float logprob) noexcept {
  if (logprobs_.size() < logprobs_.capacity()) logprobs_.push_back(logprob);
}

void ScoreOperation::open() {
  ScoreResult result;
  if (!outcome.error) result.logprobs = std::move(logprobs_);
  result.finish_reason = outcome.reason;
  result.loops = loops_;
  result.timings = timings();
  set_handled();
  auto completion = std::move(completion_);
  completion.invoke(outcome.error, std::move(result));
}

}  // namespace tinyloop::actors
