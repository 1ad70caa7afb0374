// How `tinyloop bench` times batches of requests. Nothing else may use the model meanwhile.
#pragma once

#include <cstdint>

#include "tinyloop/model.h"

namespace tinyloop::cli {

// A batch of equal requests at one depth; greedy, without an end before max_tokens.
struct BatchShape {
  int32_t batch = 1;
  int32_t loops = 1;
  int32_t prompt = 1;  // tokens of each prompt
};

// Prompt length of the request that keeps the replica busy while a batch is submitted for decoding.
inline constexpr int32_t kOpenerTokens = 128;

// Microseconds from the submission of the first request to the completion of the last, each asking
// for one token: batch × prompt prompt tokens.
double time_prefill(const Model& model, const BatchShape& shape);

// Microseconds from the first token of the sequence that has it first to the last token of the one
// that ends last: batch × gen tokens are computed and sampled in it. No prefill is, where all the
// prompts enter in one pass: where ModelOptions::prefill_budget and the scratch buffers have room
// for batch × prompt + kOpenerTokens rows.
double time_decode(const Model& model, const BatchShape& shape, int32_t gen);

}  // namespace tinyloop::cli
