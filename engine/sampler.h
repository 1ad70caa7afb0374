// How one sequence's tokens are chosen: the terms of its request, as the head takes them
// (kernels/sample.h has the definition).
#pragma once

#include <cstdint>
#include <span>

#include "engine/head_sink.h"
#include "engine/request.h"
#include "engine/token_counts.h"

namespace tinyloop::engine {

// Whether what has been said before has an influence on the choice.
inline bool has_penalties(const GenerateConfig& config) {
  return config.repetition_penalty != 1.0f || config.presence_penalty != 0.0f ||
         config.frequency_penalty != 0.0f;
}

// Whether logits are changed before the choice, so that there has to be room for changed ones.
inline bool adjusts_logits(const GenerateConfig& config) {
  return has_penalties(config) || !config.logit_bias.empty() || config.min_tokens > 0;
}

class Sampler {
 public:
  // `request` must outlive this. `counts`: where the request has penalties, else no line.
  Sampler(const SequenceRequest& request, TokenCounts::Line counts)
      : request_(request), counts_(std::move(counts)) {}

  // Of the token behind `tokens`, the prompt and what has been generated. The device counts what it
  // chooses by itself.
  HeadTerms next(std::span<const int32_t> tokens);
  // The sequence begins again: the device has to count anew.
  void forget_counts() { counted_ = false; }

 private:
  const SequenceRequest& request_;
  TokenCounts::Line counts_;
  bool counted_ = false;
};

}  // namespace tinyloop::engine
