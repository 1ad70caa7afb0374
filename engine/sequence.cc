#include "engine/sequence.h"

#include <algorithm>
#include <utility>

#include "engine/logprobs.h"

namespace tinyloop::engine {

Sequence::Sequence(SequenceId id, SequenceRequest request, size_t reserved, KvCache& cache,
                   int32_t vocab, const Tokenizer* tokenizer, SequenceClient& client,
                   uint64_t ready_since, int32_t most_rows)
    : id_(id),
      request_(std::move(request)),
      reserved_(0),
      kv_(cache),
      client_(client),
      cache_(cache, request_.loops, request_.window, request_.max_positions()),
      tokens_(request_.tokens) {
  const bool scores = request_.kind == SequenceKind::score;
  const auto prompt = int32_t(tokens_.size()) - (scores ? 1 : 0);  // the last is only looked up
  progress_ = {.ready = prompt,
               .done = 0,
               .prompt = prompt,
               .depth = request_.loops,
               .ready_since = ready_since};
  slots_.reserve(size_t(std::clamp(prompt, 1, most_rows)));
  if (!scores) {
    tokens_.reserve(tokens_.size() + size_t(request_.config.max_tokens));
    generation_.emplace(request_, vocab, tokenizer, client);
  }
  reserved_ = reserved;  // last: a constructor that throws has taken nothing over
}

Sequence::~Sequence() {
  try {
    release_memory();
  } catch (const base::Failure&) {  // the process must not end for it
  }
}

int32_t Sequence::logit_rows(int32_t rows, int32_t end) const {
  if (!generation_) return rows;
  return end == progress_.ready ? 1 : 0;
}

std::optional<Sequence::Accepted> Sequence::accept(int32_t position, std::span<const float> logits,
                                                   Sampler& sampler) {
  if (client_.wants_logits()) client_.on_logits(position, logits);
  if (!generation_) {
    const auto logprob = token_logprob(logits, token(position + 1));
    if (!logprob) return std::nullopt;
    client_.on_score(*logprob);
    if (position + 1 < progress_.prompt) return Accepted{};
    return Accepted{FinishReason::max_tokens};
  }
  const auto choice = generation_->choose(logits, position + 1, sampler);
  if (!choice) return std::nullopt;
  return append(*choice);
}

bool Sequence::picks() const {
  return generation_ && takes_most_likely(request_.config) && !request_.config.logprobs &&
         !client_.wants_logits();
}

Sequence::Accepted Sequence::accept_pick(int32_t token) {
  return append(generation_->take(token));
}

Sequence::Accepted Sequence::append(const Generation::Choice& choice) {
  tokens_.push_back(choice.token);
  if (!choice.finished) ++progress_.ready;
  return {choice.finished};
}

void Sequence::release_memory() {
  cache_.clear();
  kv_.cancel_reservation(std::exchange(reserved_, 0));
}

void Sequence::finish(FinishReason reason) {
  client_.on_finished(reason, generation_ ? generation_->remaining_text() : std::string_view());
}

}  // namespace tinyloop::engine
