// One pass: decide, bind, plan, run, commit; and the step, which is one of them or several.
#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/batch_engine_impl.h"

namespace tinyloop::engine {

StepOutcome BatchEngine::Impl::step() {
  StepOutcome outcome;
  finish_idle();
  restart_preempted();
  runner_.begin();
  while (run_pass(outcome) && runs_ahead_) runner_.start();
  runner_.finish();
  outcome.preemptions = std::exchange(preemptions_, 0);
  return outcome;
}

// False: nothing ran, or rows have left.
bool BatchEngine::Impl::run_pass(StepOutcome& outcome) {
  decide_pass();
  if (decisions_.empty()) return false;
  build_plan();
  if (plan_observer_) plan_observer_(plan_);
  verdicts_.assign(sequences_.size(), {});
  if (pass_observer_) pass_observer_->on_pass_begin();
  runner_.run(plan_, *this);
  if (pass_observer_) tell_pass(*pass_observer_, plan_, decisions_, sequences_);
  return commit(outcome);
}

// Decides until every sequence that enters has its memory. What is given back here may still be
// read by passes that have been started: those that write it again run behind them.
void BatchEngine::Impl::decide_pass() {
  require_logits();
  Cycle next_cycle;
  do {
    progress_.clear();
    for (const auto& sequence : sequences_) progress_.push_back(sequence->progress());
    next_cycle = decide(progress_, policy_, cycle_, entrance_, decisions_);
  } while (!bind_entries());
  cycle_ = next_cycle;
}

// False: one found no memory, and the sequences are not what was decided on any more.
bool BatchEngine::Impl::bind_entries() {
  for (const Decision& d : decisions_) {
    if (!d.enters) continue;
    while (const auto shortage = bind(d)) {
      if (relieve()) continue;
      unbind_entries();
      preempt_for(size_t(d.sequence), *shortage);
      return false;
    }
  }
  return true;
}

std::optional<base::Error> BatchEngine::Impl::bind(const Decision& decision) {
  Sequence& sequence = *sequences_[size_t(decision.sequence)];
  if (!sequence.cache().fund(sequence.written_by(decision.rows))) {
    return base::Error{errc::out_of_memory,
                       "K/V pages: " + std::to_string(cache_.budget() - cache_.committed()) +
                           " bytes of cache_budget_bytes " + std::to_string(cache_.budget()) +
                           " are left, reuse handles hold the rest"};
  }
  if (bind_entry(decision, sequence, slots_)) return std::nullopt;
  return base::Error{errc::out_of_memory, "K/V pages: the device has no more memory"};
}

// Takes back the slots of rows that were about to enter; pages already bound stay with them.
void BatchEngine::Impl::unbind_entries() {
  for (const Decision& d : decisions_) {
    if (d.enters) slots_.give_back(sequences_[size_t(d.sequence)]->slots());
  }
}

// The logits row is allocated when it is first needed; every sequence needs it sooner or later.
void BatchEngine::Impl::require_logits() {
  if (sequences_.empty() || buffers_.logits()) return;
  fail_all({errc::out_of_memory, "buffer 'logits': the device has no more memory"});
}

void BatchEngine::Impl::build_plan() {
  plan_.clear();
  plan_.pass = pass_++;
  for (const Decision& d : decisions_) {
    Sequence& sequence = *sequences_[size_t(d.sequence)];
    if (d.enters && sequence.begins()) sequence.client().on_begin();
    add_chunk(d, sequence, plan_);
  }
}

HeadTerms BatchEngine::Impl::terms(int32_t chunk, int32_t position) {
  return sequences_[index_of(chunk)]->head_terms(position);
}

bool BatchEngine::Impl::wants_logits(int32_t chunk) const {
  return logits_observer_ || sequences_[index_of(chunk)]->client().wants_logits();
}

void BatchEngine::Impl::on_logits(int32_t chunk, int32_t position, std::span<const float> logits) {
  if (logits_observer_) logits_observer_(position, logits);
  SequenceClient& client = sequences_[index_of(chunk)]->client();
  if (client.wants_logits()) client.on_logits(position, logits);
}

void BatchEngine::Impl::on_token(int32_t chunk, int32_t position, const kernels::ScoredToken& token,
                                 std::span<const kernels::ScoredToken> candidates) {
  Verdict& verdict = verdicts_[index_of(chunk)];
  if (verdict.failed) return;
  Sequence& sequence = *sequences_[index_of(chunk)];
  const auto accepted = sequence.accept(position, token, candidates);
  verdict.failed = !accepted;
  if (!accepted) return;
  verdict.finished = accepted->finished;
  if (sequence.request().kind == SequenceKind::generate && token.token >= 0) ++generated_;
}

// Whether all rows are still in flight.
bool BatchEngine::Impl::commit(StepOutcome& outcome) {
  ++outcome.passes;
  outcome.generated_tokens += std::exchange(generated_, 0);
  bool left = false;
  for (const Decision& d : decisions_) {
    Sequence& sequence = *sequences_[size_t(d.sequence)];
    SequenceProgress& progress = sequence.progress();
    if (d.iteration != ChunkStep::kHeld) outcome.block_rows += d.rows;
    outcome.prompt_rows += entering_prompt_rows(progress, d);
    progress = advance(progress, d, clock_);
    if (!d.leaves) continue;
    left = true;
    ++clock_;
    slots_.give_back(sequence.slots());
    if (const CachedPrefixRef kept = sequence.settle()) {
      const PrefixId id = kept->id();
      prefixes_.hold(kept);
      sequence.client().on_prefix(id);
    }
    if (sequence.is_built()) verdicts_[size_t(d.sequence)].finished = FinishReason::max_tokens;
  }
  for (size_t i = sequences_.size(); i-- > 0;) {
    if (verdicts_[i].failed) {
      fail(i, {errc::internal, "the model's logits are not finite"});
    } else if (verdicts_[i].finished) {
      end(i, *verdicts_[i].finished);
    }
  }
  cache_.publish();
  return !left;
}

// Sequences that have nothing to compute: a text of one token to score.
void BatchEngine::Impl::finish_idle() {
  for (size_t i = sequences_.size(); i-- > 0;) {
    if (sequences_[i]->progress().ready > 0) continue;
    sequences_[i]->client().on_begin();
    end(i, FinishReason::max_tokens);
  }
}

// A device gives memory back when it has come so far.
size_t BatchEngine::Impl::trim() {
  const size_t bytes = cache_.trim();
  runner_.finish();
  return bytes;
}

}  // namespace tinyloop::engine
