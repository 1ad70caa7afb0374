// Requests that come and go: what they need of the K/V budget, their admission, their ends, and
// those that make room for older ones in between.
#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/batch_engine_impl.h"
#include "engine/pass_cost.h"
#include "engine/tokenizer.h"

namespace tinyloop::engine {

namespace {

PrefixSizes sizes_of(const ModelSpec& spec, const KvCache& cache) {
  return {.prelude_page = cache.page_bytes(kPreludeGroup),
          .coda_page = cache.page_bytes(kCodaGroup),
          .loop_page = cache.page_bytes(kFirstLoopGroup),
          .row = size_t(spec.d_model) * sizeof(float),
          .injects = spec.injection != Injection::none};
}

}  // namespace

BatchEngine::Impl::Impl(ModelSpec spec, ModelWeights weights, BufferPool buffers,
                        std::shared_ptr<const Tokenizer> tokenizer, const ModelOptions& options,
                        kernels::Backend& backend, MemoryLedger& ledger, const base::LogSink& log)
    : spec_(std::move(spec)),
      weights_(std::move(weights)),
      buffers_(std::move(buffers)),
      tokenizer_(std::move(tokenizer)),
      limits_{.vocab = spec_.vocab,
              .max_seq_len = options.max_seq_len,
              .default_loops = spec_.default_iterations,
              .max_loops = spec_.max_iterations,
              .trained_context = spec_.context_length},
      policy_{.rows = buffers_.shape().rows,
              .prefill_budget = options.prefill_budget,
              .hold_passes = options.hold_passes,
              .schedule = options.schedule,
              .cost = engine::pass_cost(weights_, backend.pace())},
      max_sequences_(size_t(options.max_sequences)),
      reserve_tokens_(options.reserve_tokens),
      runs_ahead_(backend.runs_ahead()),
      cache_(backend.memory(), ledger, spec_.schedule(),
             backend.kv_layout(spec_.kv_heads, spec_.head_dim), options.cache_budget_bytes),
      prefixes_(cache_, backend.memory(), sizes_of(spec_, cache_),
                {.count = size_t(options.max_handles), .bytes = options.handle_budget_bytes}),
      token_counts_(spec_.vocab, backend.memory(), ledger),
      runner_(spec_, weights_, buffers_, cache_, prefixes_, backend),
      slots_(options.max_seq_len),
      log_(log) {
  sequences_.reserve(max_sequences_);
  preempted_.reserve(max_sequences_);
  verdicts_.reserve(max_sequences_);
  progress_.reserve(max_sequences_);
  entrance_.reserve(max_sequences_);
  decisions_.reserve(max_sequences_);
}

// ---- Requests ----------------------------------------------------------------------------------

CacheDemand BatchEngine::Impl::demand(const SequenceRequest& request, int32_t generated) const {
  return cache_demand(request, prefixes_.sizes(), most_rows(), request.positions_with(generated));
}

std::optional<Funding> BatchEngine::Impl::reserve(const SequenceRequest& request,
                                                  const CacheDemand& demand) {
  Funding funding;
  if (demand.lendable > 0) funding.borrow(request.base->capacity(), demand.lendable);
  if (!funding.pages.try_take(cache_, demand.own - funding.pages.bytes())) return std::nullopt;
  return funding;
}

bool BatchEngine::Impl::has_room(int64_t rank) const {
  return sequences_.size() + preempted_.size() < max_sequences_ && may_have_budget(rank);
}

bool BatchEngine::Impl::may_have_budget(int64_t rank) const {
  return preempted_.empty() || rank < preempted_.front()->request().rank;
}

SequenceId BatchEngine::Impl::admit(SequenceRequest request, SequenceClient& client) {
  TINYLOOP_CHECK(sequences_.size() + preempted_.size() < max_sequences_);
  if (!warned_context_ && request.max_positions() > limits_.trained_context && log_) {
    warned_context_ = true;
    log_(base::LogLevel::warning, "a request goes past the model's trained context of " +
                                      std::to_string(limits_.trained_context) +
                                      " positions; said once");
  }
  Funding funding = std::move(request.funding);  // given back if anything here throws
  reserve_plan_for(request);
  TokenCounts::Line counts = make_room_to_sample(request.config);
  CachedPrefixRef kept = make_kept(request, client);
  sequences_.push_back(std::make_unique<Sequence>(next_id_, std::move(request), std::move(kept),
                                                  cache_, std::move(counts), tokenizer_.get(),
                                                  client, clock_, most_rows()));
  sequences_.back()->fund(std::move(funding));
  ++clock_;
  return next_id_++;
}

CachedPrefixRef BatchEngine::Impl::make_kept(const SequenceRequest& request,
                                             SequenceClient& client) {
  if (!request.keep) return nullptr;
  try {
    return prefixes_.create(request.kept_shape());
  } catch (const base::Failure&) {
    // To keep its prompt is not what a generation is there for.
    if (request.kind != SequenceKind::generate) throw;
    client.on_unkept();
    return nullptr;
  }
}

// What the terms of a request take beside its logits. The first request that has such terms finds
// it or fails by itself.
TokenCounts::Line BatchEngine::Impl::make_room_to_sample(const GenerateConfig& config) {
  if (adjusts_logits(config) && !buffers_.adjusted_logits()) {
    throw base::Failure(errc::out_of_memory,
                        "buffer 'adjusted_logits': the device has no more memory");
  }
  return has_penalties(config) ? token_counts_.take() : TokenCounts::Line();
}

// The plans to come must not allocate while the sequences grow.
void BatchEngine::Impl::reserve_plan_for(const SequenceRequest& newcomer) {
  PlanRoom room{.chunks = max_sequences_, .rows = size_t(policy_.rows)};
  const auto add = [&room](const SequenceRequest& request) {
    room.pages += size_t(pages_for(request.max_positions()));
    room.copies += request.most_copies();
  };
  add(newcomer);
  for (const auto* group : {&sequences_, &preempted_}) {
    for (const auto& sequence : *group) add(sequence->request());
  }
  reserve_plan(plan_, room);
}

void BatchEngine::Impl::finish(SequenceId id, FinishReason reason) {
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i]->id() == id) return end(i, reason);
  }
  for (size_t i = 0; i < preempted_.size(); ++i) {
    if (preempted_[i]->id() != id) continue;
    const std::unique_ptr<Sequence> sequence = std::move(preempted_[i]);
    preempted_.erase(preempted_.begin() + ptrdiff_t(i));
    sequence->release_memory();
    cache_.publish();
    memory_came_back();
    return sequence->finish(reason);
  }
}

// Also called when the counts may be broken: everyone is told, whatever else goes wrong.
void BatchEngine::Impl::fail_all(const base::Error& error) noexcept {
  for (auto* group : {&preempted_, &sequences_}) {
    while (!group->empty()) {
      const std::unique_ptr<Sequence> sequence = std::move(group->back());
      group->pop_back();
      slots_.give_back(sequence->slots());
      try {
        sequence->release_memory();
      } catch (const base::Failure&) {
      }
      sequence->client().on_failed(error);
    }
  }
  cache_.publish();
}

// ---- Preemption --------------------------------------------------------------------------------

// The newest sequence makes room for the one at `index`, which may be that one itself.
void BatchEngine::Impl::preempt_for(size_t index, const base::Error& error) {
  if (sequences_.size() == 1) return fail(index, error);
  const auto later = [](const auto& a, const auto& b) {
    return std::pair(a->request().rank, a->id()) < std::pair(b->request().rank, b->id());
  };
  const auto newest = std::max_element(sequences_.begin(), sequences_.end(), later);
  std::unique_ptr<Sequence> sequence = std::move(*newest);
  sequences_.erase(newest);
  slots_.give_back(sequence->slots());
  sequence->suspend();
  const auto place = std::upper_bound(preempted_.begin(), preempted_.end(), sequence, later);
  preempted_.insert(place, std::move(sequence));
  memory_came_back_ = false;  // what it gave back is for those in progress
  ++preemptions_;
  cache_.publish();
}

// The first by rank begins again once memory has come back: not before, or it would take what the
// others are about to need, and be preempted again.
void BatchEngine::Impl::restart_preempted() {
  while (!preempted_.empty() && (sequences_.empty() || memory_came_back_)) {
    if (restart_first()) continue;
    memory_came_back_ = false;
    if (!sequences_.empty() || relieve()) continue;
    // Nobody is left who could give anything back.
    const std::unique_ptr<Sequence> sequence = std::move(preempted_.front());
    preempted_.erase(preempted_.begin());
    sequence->release_memory();
    cache_.publish();
    sequence->client().on_failed(
        {errc::out_of_memory,
         "K/V pages: reuse handles hold what the request would need to go on"});
  }
}

bool BatchEngine::Impl::restart_first() {
  Sequence& sequence = *preempted_.front();
  const int64_t generated = int64_t{sequence.generated()} + reserve_tokens_;
  auto funding =
      reserve(sequence.request(),
              demand(sequence.request(), int32_t(std::min<int64_t>(generated, INT32_MAX))));
  if (!funding) return false;
  sequence.restart(std::move(*funding), clock_++);
  sequences_.push_back(std::move(preempted_.front()));
  preempted_.erase(preempted_.begin());
  return true;
}

// ---- Ends --------------------------------------------------------------------------------------

// Pages, slots and reservation are back before anyone hears of the end.
std::unique_ptr<Sequence> BatchEngine::Impl::retire(size_t index) {
  std::unique_ptr<Sequence> sequence = std::move(sequences_[index]);
  sequences_.erase(sequences_.begin() + ptrdiff_t(index));
  slots_.give_back(sequence->slots());
  sequence->release_memory();
  cache_.publish();
  memory_came_back();
  return sequence;
}

void BatchEngine::Impl::end(size_t index, FinishReason reason) {
  retire(index)->finish(reason);
}

void BatchEngine::Impl::fail(size_t index, const base::Error& error) {
  retire(index)->client().on_failed(error);
}

}  // namespace tinyloop::engine
