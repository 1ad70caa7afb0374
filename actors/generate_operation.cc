#include "actors/generate_operation.h"

#include <new>
#include <utility>

#include "actors/error.h"

namespace tinyloop::actors {

GenerateOperation::GenerateOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked,
                                     Terms how, detail::Completion<GenerateResult>& completion)
    : AnsweringOperation(std::move(inbox), std::move(checked), how),
      logprobs_(size_t(request.config.max_tokens), request.config.logprobs) {
  const auto max_tokens = size_t(request.config.max_tokens);
  tokens_.reserve(request.tokens.size() + max_tokens);
  tokens_.insert(tokens_.end(), request.tokens.begin(), request.tokens.end());
  text_.reserve(max_tokens * kUsualTokenBytes);
  take(completion);
}

void GenerateOperation::take_token(int32_t token, std::string_view text,
                                   const PositionLogprobs* logprobs) {
  if (logprobs) logprobs_.set(tokens_.size() - prompt_tokens_, *logprobs);
  tokens_.push_back(token);
  text_.append(text);
}

void GenerateOperation::open() {
  GenerateResult result;
  if (!outcome.error) {
    result.logprobs = logprobs_.take_first(tokens_.size() - prompt_tokens_);
    result.tokens = std::move(tokens_);
    result.text = std::move(text_);
  }
  result.prompt_tokens = prompt_tokens_;
  result.finish_reason = outcome.reason;
  result.loops = loops_;
  result.timings = timings();
  answer(outcome.error, std::move(result));
}

}  // namespace tinyloop::actors
