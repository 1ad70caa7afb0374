// How `tinyloop bench` times batches of requests. Nothing else may use the model meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling_arguments.h"
#include "tinyloop/model.h"

namespace tinyloop::cli {

// Prompts of one length at one depth, each with one new token.
struct PromptShape {
  int32_t prompts = 1;
  int32_t tokens = 1;  // of each prompt
  int32_t loops = 1;
};

// Prompt length of the request that keeps the replica busy while a batch is submitted for decoding.
inline constexpr int32_t kOpenerTokens = 128;

// The same tokens every time; which ones does not matter to the speed. Lists of different `salt`
// have no beginning in common.
std::vector<int32_t> some_tokens(int32_t count, int32_t vocab, int32_t salt);

// Microseconds from the submission of the first prompt to the completion of the last.
double time_prefill(const Model& model, const PromptShape& shape);

// Adds different contexts of that shape until there are shape.prompts, computed and kept: each
// caller has K/V of its own.
void add_contexts(const Model& model, const PromptShape& shape, std::vector<PrefixCache>& contexts);

// Each context is continued by a caller of its own, by gen + 1 tokens. Microseconds from the first
// token of the caller that has it first to the last token of the one that ends last: contexts × gen
// tokens are computed and sampled in it, and no prefill, since the contexts are kept. `contexts`
// have one depth and are not empty; ModelOptions has room for one sequence and kOpenerTokens prompt
// rows beside them.
double time_decode(const Model& model, std::span<const PrefixCache> contexts,
                   const Sampling& sampling, int32_t gen);

}  // namespace tinyloop::cli
