#include "actors/score_operation.h"

#include <utility>

namespace tinyloop::actors {

ScoreOperation::ScoreOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked,
                               Terms how, detail::Completion<ScoreResult>& completion)
    : AnsweringOperation(std::move(inbox), std::move(checked), how) {
  logprobs_.reserve(prompt_tokens_);
  take(completion);
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
  answer(outcome.error, std::move(result));
}

}  // namespace tinyloop::actors
