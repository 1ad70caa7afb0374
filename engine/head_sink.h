// Who wants something of the rows that the head computes: says what, and is told.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/sample.h"

namespace tinyloop::engine {

// What is wanted of a row. All views are of host memory that stays as it is until the sink has been
// told the row's token.
struct HeadTerms {
  kernels::SampleTerms sample{};     // without mask and biases
  std::span<const uint32_t> mask{};  // [mask_words(vocab)]; empty: every token may follow
  std::span<const kernels::LogitBias> biases{};  // of different tokens
  // Not empty: sample.counts are to be made of these tokens first, a prompt and its output.
  std::span<const int32_t> counted{};
  int32_t counted_prompt = 0;  // how many of them are the prompt
};

class HeadSink {
 public:
  virtual ~HeadSink() = default;

  // `chunk` is an index into StepPlan::chunks, `position` that of the row.
  virtual HeadTerms terms(int32_t chunk, int32_t position) = 0;
  // Whether on_logits is to be called for the chunk's rows: then their logits travel to the host.
  virtual bool wants_logits(int32_t chunk) const = 0;
  virtual void on_logits(int32_t chunk, int32_t position, std::span<const float> logits) = 0;
  // In the order of the plan's chunks and of their rows. `candidates`: the most likely tokens, as
  // many as the terms ask for and the vocabulary has.
  virtual void on_token(int32_t chunk, int32_t position, const kernels::ScoredToken& token,
                        std::span<const kernels::ScoredToken> candidates) = 0;
};

}  // namespace tinyloop::engine
