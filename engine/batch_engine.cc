#include "engine/batch_engine.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/buffer_pool.h"
#include "engine/cache_demand.h"
#include "engine/fp16_cache.h"
#include "engine/gguf_reader.h"
#include "engine/kv_cache.h"
#include "engine/model_spec.h"
#include "engine/model_weights.h"
#include "engine/pass_cost.h"
#include "engine/pass_observer.h"
#include "engine/plan_builder.h"
#include "engine/planner.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "engine/step_runner.h"
#include "engine/tokenizer_from_gguf.h"

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

class BatchEngine::Impl final : public LogitsSink {
 public:
  Impl(ModelSpec spec, ModelWeights weights, BufferPool buffers,
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
        runner_(spec_, weights_, buffers_, cache_, prefixes_, backend),
        slots_(options.max_seq_len),
        sampler_(size_t(spec_.vocab)),
        log_(log) {
    sequences_.reserve(max_sequences_);
    preempted_.reserve(max_sequences_);
    verdicts_.reserve(max_sequences_);
    progress_.reserve(max_sequences_);
    entrance_.reserve(max_sequences_);
    decisions_.reserve(max_sequences_);
  }

  void on_row(int32_t chunk, int32_t position, std::span<const float> logits) override;
  void on_pick(int32_t chunk, int32_t position, int32_t token) override;

  // Of a request that generates so many tokens.
  CacheDemand demand(const SequenceRequest& request, int32_t generated) const;
  CacheDemand admission_demand(const SequenceRequest& request) const {
    return demand(request, reserve_tokens_);
  }
  std::optional<Funding> reserve(const SequenceRequest& request, const CacheDemand& demand);
  bool has_room(int64_t rank) const;
  bool may_have_budget(int64_t rank) const;
  void memory_came_back() { memory_came_back_ = true; }
  SequenceId admit(SequenceRequest request, SequenceClient& client);
  void finish(SequenceId id, FinishReason reason);
  void fail_all(const base::Error& error) noexcept;
  StepOutcome step();
  size_t trim();

  ModelSpec spec_;
  ModelWeights weights_;
  BufferPool buffers_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  RequestLimits limits_;
  const PlannerPolicy policy_;
  size_t max_sequences_;
  const int32_t reserve_tokens_;
  const bool runs_ahead_;
  KvCache cache_;
  PrefixStore prefixes_;
  std::vector<std::unique_ptr<Sequence>> sequences_;  // with their pages
  std::vector<std::unique_ptr<Sequence>> preempted_;  // without, by rank
  std::function<bool()> relief_;
  std::function<void(const StepPlan&)> plan_observer_;
  PassObserver* pass_observer_ = nullptr;
  LogitsObserver logits_observer_;

 private:
  int32_t most_rows() const { return std::min(policy_.rows, policy_.prefill_budget); }
  void reserve_plan_for(const SequenceRequest& newcomer);
  CachedPrefixRef make_kept(const SequenceRequest& request, SequenceClient& client);
  void decide_pass();
  bool bind_entries();
  std::optional<base::Error> bind(const Decision& decision);
  void unbind_entries();
  bool relieve() { return relief_ && relief_(); }
  void preempt_for(size_t index, const base::Error& error);
  void restart_preempted();
  bool restart_first();
  void build_plan();
  void require_logits();
  bool run_pass(StepOutcome& outcome);
  void accept(size_t index, const std::optional<Sequence::Accepted>& accepted);
  bool commit(StepOutcome& outcome);
  void finish_idle();
  std::unique_ptr<Sequence> retire(size_t index);
  void end(size_t index, FinishReason reason);
  void fail(size_t index, const base::Error& error);

  StepRunner runner_;
  SlotPool slots_;
  Sampler sampler_;
  const base::LogSink& log_;
  SequenceId next_id_ = 1;
  uint64_t clock_ = 0;  // orders sequences at the planner's entrance
  uint64_t pass_ = 0;
  bool warned_context_ = false;
  bool memory_came_back_ = false;  // since a preempted sequence last found none
  int32_t preemptions_ = 0;

  Cycle cycle_;  // of passes, as the last one has left it
  // Of the pass at hand; kept for their capacity.
  std::vector<SequenceProgress> progress_;
  std::vector<int32_t> entrance_;
  std::vector<Decision> decisions_;
  StepPlan plan_;
  // What a sequence's logits led to, by index in sequences_.
  struct Verdict {
    std::optional<FinishReason> finished;
    bool failed = false;
  };
  std::vector<Verdict> verdicts_;
  int32_t generated_ = 0;
};

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
  CachedPrefixRef kept = make_kept(request, client);
  sequences_.push_back(std::make_unique<Sequence>(next_id_, std::move(request), std::move(kept),
                                                  cache_, spec_.vocab, tokenizer_.get(), client,
                                                  clock_, most_rows()));
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

// ---- One pass ----------------------------------------------------------------------------------

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

void BatchEngine::Impl::on_row(int32_t chunk, int32_t position, std::span<const float> logits) {
  const auto index = size_t(decisions_[size_t(chunk)].sequence);
  if (verdicts_[index].failed) return;
  if (logits_observer_) logits_observer_(position, logits);
  accept(index, sequences_[index]->accept(position, logits, sampler_));
}

void BatchEngine::Impl::on_pick(int32_t chunk, int32_t /*position*/, int32_t token) {
  const auto index = size_t(decisions_[size_t(chunk)].sequence);
  if (token == kernels::kNoToken) return accept(index, std::nullopt);
  accept(index, sequences_[index]->accept_pick(token));
}

void BatchEngine::Impl::accept(size_t index, const std::optional<Sequence::Accepted>& accepted) {
  Verdict& verdict = verdicts_[index];
  verdict.failed = !accepted;
  if (!accepted) return;
  verdict.finished = accepted->finished;
  if (sequences_[index]->request().kind == SequenceKind::generate) ++generated_;
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

// ---- The public face ---------------------------------------------------------------------------

namespace {

// What the file may ask for, but this device does not compute.
void check_device(const GgufFile& file, const ModelSpec& spec, const kernels::Backend& backend) {
  if (spec.head_dim <= backend.most_head_dim()) return;
  throw base::Failure(file.error(
      errc::unsupported_model, "head_dim: " + std::to_string(spec.head_dim) +
                                   ", expected at most " + std::to_string(backend.most_head_dim()) +
                                   " on " + backend.description()));
}

}  // namespace

base::Result<std::unique_ptr<BatchEngine>> BatchEngine::load(const std::string& path,
                                                             const ModelOptions& options,
                                                             kernels::Backend& backend,
                                                             MemoryLedger& ledger,
                                                             const base::LogSink& log) try {
  check_options(options).value();
  const GgufFile file = GgufFile::open(path).value();
  ModelSpec spec = read_model_spec(file).value();
  check_device(file, spec, backend);
  auto tokenizer = load_tokenizer(file).value();
  ModelWeights weights = ModelWeights::upload(spec, backend).value();
  BufferPool buffers = BufferPool::allocate(buffer_shape(spec, options), backend, ledger).value();
  if (backend.wants_fp16_copies()) {
    add_fp16_copies(weights, backend, fp16_cache_limit(options).value());
  }
  spec.tensors = {};  // their data end with the file
  auto shared_tokenizer =
      tokenizer ? std::make_shared<const Tokenizer>(*std::move(tokenizer)) : nullptr;
  auto impl = std::make_unique<Impl>(std::move(spec), std::move(weights), std::move(buffers),
                                     std::move(shared_tokenizer), options, backend, ledger, log);
  return std::unique_ptr<BatchEngine>(new BatchEngine(std::move(impl)));
} catch (const base::Failure& failure) {
  return failure.error();
}

BatchEngine::BatchEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BatchEngine::~BatchEngine() = default;

const RequestLimits& BatchEngine::limits() const {
  return impl_->limits_;
}
const ModelSpec& BatchEngine::spec() const {
  return impl_->spec_;
}
std::shared_ptr<const Tokenizer> BatchEngine::tokenizer() const {
  return impl_->tokenizer_;
}
size_t BatchEngine::cache_bytes(const SequenceRequest& request) const {
  return impl_->demand(request, request.config.max_tokens).least_budget();
}
size_t BatchEngine::admission_bytes(const SequenceRequest& request) const {
  return impl_->admission_demand(request).least_budget();
}

bool BatchEngine::could_ever_fit(size_t bytes) const {
  return bytes <= impl_->cache_.budget();
}
bool BatchEngine::try_reserve(SequenceRequest& request) {
  auto funding = impl_->reserve(request, impl_->admission_demand(request));
  if (funding) request.funding = std::move(*funding);
  return funding.has_value();
}
void BatchEngine::set_relief(std::function<bool()> relief) {
  impl_->relief_ = std::move(relief);
}
CachedPrefixRef BatchEngine::find_prefix(PrefixId id) const {
  return impl_->prefixes_.find(id);
}
void BatchEngine::drop_prefix(PrefixId id) {
  impl_->prefixes_.drop(id);
  impl_->cache_.publish();
  impl_->memory_came_back();
}
const PrefixSizes& BatchEngine::prefix_sizes() const {
  return impl_->prefixes_.sizes();
}
void BatchEngine::drop_prefixes() noexcept {
  impl_->prefixes_.drop_all();
  impl_->cache_.publish();
  impl_->memory_came_back();
}
PrefixId BatchEngine::next_prefix() const {
  return impl_->prefixes_.next_id();
}
void BatchEngine::number_prefixes_from(PrefixId first) {
  impl_->prefixes_.number_from(first);
}
HandleExcess BatchEngine::handle_excess(const PrefixShape& shape) const {
  return impl_->prefixes_.excess(shape);
}
const PassCost& BatchEngine::pass_cost() const {
  return impl_->policy_.cost;
}
bool BatchEngine::has_room(int64_t rank) const {
  return impl_->has_room(rank);
}
bool BatchEngine::may_have_budget(int64_t rank) const {
  return impl_->may_have_budget(rank);
}
size_t BatchEngine::active() const {
  return impl_->sequences_.size() + impl_->preempted_.size();
}
size_t BatchEngine::preempted() const {
  return impl_->preempted_.size();
}
SequenceId BatchEngine::admit(SequenceRequest request, SequenceClient& client) {
  return impl_->admit(std::move(request), client);
}
void BatchEngine::finish(SequenceId id, FinishReason reason) {
  impl_->finish(id, reason);
}
void BatchEngine::fail_all(const base::Error& error) noexcept {
  impl_->fail_all(error);
}
StepOutcome BatchEngine::step() {
  return impl_->step();
}
size_t BatchEngine::trim() {
  return impl_->trim();
}
void BatchEngine::set_plan_observer(std::function<void(const StepPlan&)> observer) {
  impl_->plan_observer_ = std::move(observer);
}
void BatchEngine::set_pass_observer(PassObserver* observer) {
  impl_->pass_observer_ = observer;
}
void BatchEngine::set_logits_observer(LogitsObserver observer) {
  impl_->logits_observer_ = std::move(observer);
}

}  // namespace tinyloop::engine
