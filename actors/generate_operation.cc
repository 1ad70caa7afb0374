#include "actors/generate_operation.h"

#include <new>
#include <utility>

#include "actors/error.h"

namespace tinyloop::actors {

namespace {

constexpr size_t kUsualTokenBytes = 8;

}  // namespace

GenerateOperation::GenerateOperation(std::shared_ptr<Inbox> inbox, engine::SequenceRequest checked,
                                     Terms how, detail::Completion<GenerateResult> completion)
    : Operation(std::move(inbox), std::move(checked), how),
      logprobs_(size_t(request.config.max_tokens), request.config.logprobs),
      completion_(std::move(completion)) {
  const auto max_tokens = size_t(request.config.max_tokens);
  tokens_.reserve(request.tokens.size() + max_tokens);
  tokens_.insert(tokens_.end(), request.tokens.begin(), request.tokens.end());
  text_.reserve(max_tokens * kUsualTokenBytes);
}

void GenerateOperation::take_token(int32_t token, std::string_view text,
                                   const PositionLogprobs* logprobs) {
  if (logprobs) logprobs_.set(tokens_.size() - prompt_tokens_, *logprobs);
  tokens_.push_back(token);
  text_.append(text);
}

void GenerateOperation::deliver() noexcept {
  GenerateResult result;
  try {
    result.logprobs = logprobs_.take(0, tokens_.size() - prompt_tokens_);
  } catch (const std::bad_alloc&) {
    outcome.error = make_error(errc::out_of_memory, "no host memory for the log-probabilities");
  }
  if (!outcome.error) {
    result.tokens = std::move(tokens_);
    result.text = std::move(text_);
  }
  result.prompt_tokens = prompt_tokens_;
  result.finish_reason = outcome.reason;
  result.loops = loops_;
  result.timings = timings();
  completion_.post(outcome.error, std::move(result));
}

}  // namespace tinyloop::actors
