// One request in progress: its tokens, its pages, how far it has come, and what becomes of its
// logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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
  // Takes over `reserved` bytes of the cache's budget; the destructor gives them back, with all
  // pages. `ready_since` is its place at the planner's entrance, `most_rows` how many of its rows
  // may be in flight at once. All host memory that it will need is taken here.
  Sequence(SequenceId id, SequenceRequest request, size_t reserved, KvCache& cache, int32_t vocab,
           const Tokenizer* tokenizer, SequenceClient& client, uint64_t ready_since,
           int32_t most_rows);
  ~Sequence();
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

  // How many of the last `rows` rows up to position `end` − 1 need logits.
  int32_t logit_rows(int32_t rows, int32_t end) const;
  // Whether nothing but the most likely token of each row is wanted.
  bool picks() const;
  // Takes the logits of the row at `position`. nullopt: they are not finite.
  // Otherwise the client has been told, and `finished` says whether this was the end.
  struct Accepted {
    std::optional<FinishReason> finished;
  };
  std::optional<Accepted> accept(int32_t position, std::span<const float> logits, Sampler& sampler);
  // Takes the most likely token after the row at `position`, where picks().
  Accepted accept_pick(int32_t token);

  // Gives back pages and reservation; the sequence computes nothing more. Throws where the counts
  // are broken, which is a bug of ours.
  void release_memory();
  // Tells the client the end; the sequence is then to be destroyed.
  void finish(FinishReason reason);

 private:
  Accepted append(const Generation::Choice& choice);

  SequenceId id_;
  SequenceRequest request_;
  size_t reserved_;
  KvCache& kv_;
  SequenceClient& client_;
  SequenceCache cache_;
  SequenceProgress progress_;
  std::vector<int32_t> tokens_;  // prompt, then generated; reserved in full
  std::vector<int32_t> slots_;
  std::optional<Generation> generation_;  // unless it only scores
};

}  // namespace tinyloop::engine
