// The inside of a BatchEngine: what it holds, and the few functions between its three parts:
// requests that come and go (batch_engine_requests.cc), one pass (batch_engine_pass.cc), and the
// public face (batch_engine.cc).
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/batch_engine.h"
#include "engine/buffer_pool.h"
#include "engine/cache_demand.h"
#include "engine/kv_cache.h"
#include "engine/model_spec.h"
#include "engine/model_weights.h"
#include "engine/pass_observer.h"
#include "engine/plan_builder.h"
#include "engine/planner.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "engine/step_runner.h"
#include "engine/token_counts.h"

namespace tinyloop::engine {

class BatchEngine::Impl final : public HeadSink {
 public:
  Impl(ModelSpec spec, ModelWeights weights, BufferPool buffers,
       std::shared_ptr<const Tokenizer> tokenizer, const ModelOptions& options,
       kernels::Backend& backend, MemoryLedger& ledger, const base::LogSink& log);

  HeadTerms terms(int32_t chunk, int32_t position) override;
  bool wants_logits(int32_t chunk) const override;
  void on_logits(int32_t chunk, int32_t position, std::span<const float> logits) override;
  void on_token(int32_t chunk, int32_t position, const kernels::ScoredToken& token,
                std::span<const kernels::ScoredToken> candidates) override;

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
  TokenCounts token_counts_;
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
  TokenCounts::Line make_room_to_sample(const GenerateConfig& config);
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
  bool commit(StepOutcome& outcome);
  void finish_idle();
  std::unique_ptr<Sequence> retire(size_t index);
  void end(size_t index, FinishReason reason);
  void fail(size_t index, const base::Error& error);

  StepRunner runner_;
  SlotPool slots_;
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
  size_t index_of(int32_t chunk) const { return size_t(decisions_[size_t(chunk)].sequence); }
  int32_t generated_ = 0;
};

}  // namespace tinyloop::engine
