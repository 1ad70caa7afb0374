#include "engine/sequence.h"

#include <algorithm>
#include <utility>

namespace tinyloop::engine {

namespace {

// Where a request stands before the first pass in which it has so many tokens: it has generated
// some of them if it begins again.
SequenceProgress first_progress(const SequenceRequest& request, int32_t tokens,
                                uint64_t ready_since) {
  // The last token of a text to score is only looked up.
  const int32_t prompt = tokens - (request.kind == SequenceKind::score ? 1 : 0);
  SequenceProgress progress{.ready = prompt,
                            .done = request.base_positions,
                            .prompt = prompt,
                            .depth = request.loops,
                            .ready_since = ready_since,
                            .priority = request.config.priority};
  if (request.resumes()) {
    progress.done = 0;
    progress.restored = request.base_positions;
    progress.restored_from = request.base->shape().loops;
    progress.restored_depth = request.base_loops;
  } else if (request.base && request.base_positions == prompt) {
    progress.done = prompt - 1;
    progress.restored = prompt;
    progress.restored_from = progress.restored_depth = request.loops;
  }
  return progress;
}

}  // namespace

Sequence::Sequence(SequenceId id, SequenceRequest request, CachedPrefixRef kept, KvCache& cache,
                   TokenCounts::Line counts, const Tokenizer* tokenizer, SequenceClient& client,
                   uint64_t ready_since, int32_t most_rows)
    : id_(id),
      request_(std::move(request)),
      kept_(std::move(kept)),
      client_(client),
      cache_(cache, request_.most_loops(), request_.window, request_.max_positions()),
      progress_(first_progress(request_, int32_t(request_.tokens.size()), ready_since)),
      tokens_(request_.tokens),
      sampler_(request_, std::move(counts)) {
  // If it begins again, all that it has generated enters as a prompt.
  slots_.reserve(size_t(std::clamp(request_.max_positions() - progress_.done, 1, most_rows)));
  if (request_.kind == SequenceKind::generate) {
    tokens_.reserve(tokens_.size() + size_t(request_.config.max_tokens));
    generation_.emplace(request_, tokenizer, client);
  }
  if (request_.base) cache_.share(request_.base->tables(), request_.base_positions);
}

Sequence::~Sequence() {
  try {
    release_memory();
  } catch (const base::Failure&) {  // the process must not end for it
  }
}

void Sequence::suspend() {
  told_ = std::max(told_, progress_.done);
  cache_.copies().clear();
  cache_.clear();
  cache_.funding() = {};
}

void Sequence::restart(Funding funding, uint64_t ready_since) {
  fund(std::move(funding));
  sampler_.forget_counts();
  progress_ = first_progress(request_, int32_t(tokens_.size()), ready_since);
  if (request_.base) cache_.share(request_.base->tables(), request_.base_positions);
}

bool Sequence::wants_head_alone() const {
  return progress_.restores() && !request_.resumes();
}

WrittenRows Sequence::written_by(int32_t rows) const {
  return {.first = progress_.done,
          .end = progress_.done + rows,
          .prelude = !progress_.restores(),
          .coda = runs_coda(),
          .from_loop = progress_.first_iteration(),
          .to_loop = progress_.last_iteration()};
}

bool Sequence::runs_coda() const {
  if (wants_head_alone()) return false;
  const bool behind_loop = kept_ && kept_->shape().state == PrefixState::loop_rows;
  return !(behind_loop && progress_.done < progress_.prompt);
}

PrefixId Sequence::keeps(int32_t end) const {
  if (!kept_ || kept_->filled()) return 0;
  const bool last = end == progress_.prompt;
  return last || kept_->shape().state == PrefixState::loop_rows ? kept_->id() : 0;
}

CachedPrefixRef Sequence::settle() {
  cache_.slide(progress_.done);
  if (progress_.done < progress_.prompt) return nullptr;
  const bool fills = kept_ && !kept_->filled();
  if (fills) kept_->fill(cache_);
  // Decoding rows that are not so deep as the prefix leave its deepest pages alone.
  if (request_.resumes()) cache_.drop_loops(request_.loops);
  return fills ? kept_ : nullptr;
}

int32_t Sequence::logit_rows(int32_t rows, int32_t end) const {
  if (request_.kind == SequenceKind::build) return 0;
  if (!generation_) return std::clamp(end - told_, 0, rows);
  return end == progress_.ready ? 1 : 0;
}

HeadTerms Sequence::head_terms(int32_t position) {
  if (generation_) return sampler_.next(tokens_);
  return {.sample = {.target = token(position + 1)}};
}

std::optional<Sequence::Accepted> Sequence::accept(
    int32_t position, const kernels::ScoredToken& token,
    std::span<const kernels::ScoredToken> candidates) {
  if (token.token == kernels::kNoToken) return std::nullopt;
  if (token.token == kernels::kAllMasked) return Accepted{FinishReason::all_masked};
  if (!generation_) {
    client_.on_score(token.logprob);
    if (position + 1 < progress_.prompt) return Accepted{};
    return Accepted{FinishReason::max_tokens};
  }
  const auto finished = generation_->take(token, candidates);
  tokens_.push_back(token.token);
  if (!finished) ++progress_.ready;
  return Accepted{finished};
}

void Sequence::release_memory() {
  cache_.clear();
  cache_.funding() = {};
  request_.base.reset();
  kept_.reset();
}

void Sequence::finish(FinishReason reason) {
  client_.on_finished(reason, generation_ ? generation_->remaining_text() : std::string_view());
}

}  // namespace tinyloop::engine
