// One request in progress: its tokens, its pages, how far it has come, and what becomes of its
// logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/generation.h"
#include "engine/planner.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/sequence_cache.h"
#include "engine/sequence_client.h"

namespace tinyloop::engine {

class Sequence {
 public:
  // `kept`: an unfilled prefix for request.keep, or null. `counts`: where the request has
  // penalties, else no line. `ready_since` is its place at the
  // planner's entrance, `most_rows` how many of its rows may be in flight at once. All host memory
  // that it will need is taken here. The destructor gives back all pages, and what pays for them.
  Sequence(SequenceId id, SequenceRequest request, CachedPrefixRef kept, KvCache& cache,
           TokenCounts::Line counts, const Tokenizer* tokenizer, SequenceClient& client,
           uint64_t ready_since, int32_t most_rows);
  ~Sequence();
  // Pays for its pages from now on: before the first pass.
  void fund(Funding funding) noexcept { cache_.funding() = std::move(funding); }
  // Gives back its pages, and what pays for them: what it has computed is lost, but for the tokens.
  // Its slots are the caller's to give back.
  void suspend();
  // Begins again, with the tokens that it has: to the same bits, for a row's do not depend on
  // whether it comes with others.
  void restart(Funding funding, uint64_t ready_since);
  // Tokens that it has generated.
  int32_t generated() const { return int32_t(tokens_.size() - request_.tokens.size()); }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  SequenceId id() const { return id_; }
  const SequenceRequest& request() const { return request_; }
  SequenceClient& client() const { return client_; }
  SequenceCache& cache() { return cache_; }
  SequenceProgress& progress() { return progress_; }
  const SequenceProgress& progress() const { return progress_; }

  // Lines of the residual buffer that hold the rows in flight.
  std::vector<int32_t>& slots() { return slots_; }
  int32_t token(int32_t position) const { return tokens_[size_t(position)]; }

  // What the next `rows` rows to enter will write.
  WrittenRows written_by(int32_t rows) const;
  // Whether the rows in flight run the coda before they leave: not where a snapshot behind the loop
  // is all that is wanted, nor where they have been through it.
  bool runs_coda() const;
  // The prefix whose snapshot takes the rows that end before position `end`; 0: none.
  PrefixId keeps(int32_t end) const;
  // After rows have left: gives back what no further row can need. Once the prompt has been
  // computed, fills the prefix that is to be kept, and returns it, once.
  CachedPrefixRef settle();
  // Whether there is nothing left to do but to keep what has been computed.
  bool is_built() const {
    return request_.kind == SequenceKind::build && progress_.done == progress_.prompt;
  }
  // Rows enter a pass. True the first time.
  bool begins() { return !std::exchange(begun_, true); }

  // How many of the last `rows` rows up to position `end` − 1 need logits.
  int32_t logit_rows(int32_t rows, int32_t end) const;
  // What is wanted of the row at `position`, which needs them.
  HeadTerms head_terms(int32_t position);
  // Takes what the head has made of the row at `position`. nullopt: its logits are not finite.
  // Otherwise the client has been told, and `finished` says whether this was the end.
  struct Accepted {
    std::optional<FinishReason> finished;
  };
  std::optional<Accepted> accept(int32_t position, const kernels::ScoredToken& token,
                                 std::span<const kernels::ScoredToken> candidates);

  // Gives back pages and reservation, and the prefixes that it began with and was to keep, of which
  // it may be the last user; the sequence computes nothing more. Throws where the counts are
  // broken, which is a bug of ours.
  void release_memory();
  // Tells the client the end; the sequence is then to be destroyed.
  void finish(FinishReason reason);

 private:
  bool wants_head_alone() const;

  SequenceId id_;
  SequenceRequest request_;
  CachedPrefixRef kept_;
  SequenceClient& client_;
  SequenceCache cache_;
  SequenceProgress progress_;
  bool begun_ = false;
  int32_t told_ = 0;             // of a text to score: the rows before have given their logits
  std::vector<int32_t> tokens_;  // prompt, then generated; reserved in full
  std::vector<int32_t> slots_;
  std::optional<Generation> generation_;  // unless it only scores
  Sampler sampler_;
};

}  // namespace tinyloop::engine
