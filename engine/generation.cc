#include "engine/generation.h"

#include <utility>

#include "engine/logprobs.h"

namespace tinyloop::engine {

Generation::Generation(SequenceRequest& request, int32_t vocab, const Tokenizer* tokenizer,
                       SequenceClient& client)
    : request_(request),
      tokenizer_(tokenizer),
      client_(client),
      stops_(std::move(request.stops)),
      history_(size_t(vocab)) {
  if (tokenizer) {
    text_.reserve(TextDecoder::max_output(tokenizer->max_token_bytes()));
    for (const int32_t token : request.tokens) tokenizer->next_bytes(token, at_start_);
  }
  history_.add(request.tokens);
  if (request.config.logprobs) logprobs_.top.reserve(size_t(*request.config.logprobs));
}

std::optional<Generation::Choice> Generation::choose(std::span<const float> logits,
                                                     int32_t position, Sampler& sampler) {
  const GenerateConfig& config = request_.config;
  const auto token = sampler.sample(logits, config, history_, uint64_t(position));
  if (!token) return std::nullopt;
  if (config.logprobs && !position_logprobs(logits, *token, *config.logprobs, logprobs_)) {
    return std::nullopt;
  }
  return take(*token);
}

Generation::Choice Generation::take(int32_t token) {
  history_.add(token);
  ++generated_;
  const StopMatcher::Step step = release_text(token);
  client_.on_token(token, step.text, request_.config.logprobs ? &logprobs_ : nullptr);
  return {token, finish_reason(token, step.stopped)};
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
