#include "engine/generation.h"

#include <utility>

namespace tinyloop::engine {

Generation::Generation(SequenceRequest& request, const Tokenizer* tokenizer, SequenceClient& client)
    : request_(request), tokenizer_(tokenizer), client_(client), stops_(std::move(request.stops)) {
  if (tokenizer) {
    text_.reserve(TextDecoder::max_output(tokenizer->max_token_bytes()));
    for (const int32_t token : request.tokens) tokenizer->next_bytes(token, at_start_);
  }
  if (request.config.logprobs) logprobs_.top.reserve(size_t(*request.config.logprobs));
}

std::optional<FinishReason> Generation::take(const kernels::ScoredToken& token,
                                             std::span<const kernels::ScoredToken> candidates) {
  ++generated_;
  const StopMatcher::Step step = release_text(token.token);
  const bool wants_logprobs = request_.config.logprobs.has_value();
  if (wants_logprobs) {
    logprobs_.chosen = {token.token, token.logprob};
    logprobs_.top.clear();
    for (const auto& [id, logprob] : candidates) logprobs_.top.push_back({id, logprob});
  }
  client_.on_token(token.token, step.text, wants_logprobs ? &logprobs_ : nullptr);
  return finish_reason(token.token, step.stopped);
}

std::string_view Generation::remaining_text() {
  if (stops_.stopped()) return {};
  text_.clear();
  decoder_.flush(text_);
  return stops_.finish(text_).text;
}

StopMatcher::Step Generation::release_text(int32_t token) {
  text_.clear();
  if (tokenizer_) decoder_.push(tokenizer_->next_bytes(token, at_start_), text_);
  return stops_.push(token, text_);
}

std::optional<FinishReason> Generation::finish_reason(int32_t token, bool stopped) const {
  if (stopped) return FinishReason::stop_sequence;
  const GenerateConfig& config = request_.config;
  if (config.eos == EosMode::stop && tokenizer_ && tokenizer_->eos() == token) {
    return FinishReason::eos;
  }
  if (generated_ == config.max_tokens) return FinishReason::max_tokens;
  return std::nullopt;
}

}  // namespace tinyloop::engine
