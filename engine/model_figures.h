// Figures and facts derived from a model file, for its description.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/model_spec.h"

namespace tinyloop::engine {

// Figures derived from a model; "at default depth" means default_iterations loops.
struct ModelFigures {
  uint64_t parameters = 0;         // values of all tensors; a tied head counts once
  uint64_t parameters_as_run = 0;  // the same, with what runs in every loop counted once a loop
  uint64_t tensor_bytes = 0;
  double bits_per_weight = 0.0;  // tensor_bytes · 8 / parameters
  int32_t layers_run = 0;        // per token at default depth
  // K and V in FP16, as the default mode stores them; all slots at default depth, page padding
  // aside.
  uint64_t kv_bytes_per_token = 0;
};

ModelFigures model_figures(const ModelSpec& spec);

struct TypeTotal {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

// By GGUF's number of the tensor type.
std::map<uint32_t, TypeTotal> totals_by_type(const GgufFile& file);

// What the file carries of a tokenizer, unverified; `kind` is empty if it has none.
struct TokenizerFacts {
  std::string kind;
  std::string pre;  // the pre-tokenizer's name; may be empty
  uint64_t tokens = 0;
  uint64_t merges = 0;
};

TokenizerFacts tokenizer_facts(const GgufFile& file);

// The optional parts a model uses, in words: "tied output", "loop norm", …
std::vector<std::string> option_list(const ModelSpec& spec);

}  // namespace tinyloop::engine
