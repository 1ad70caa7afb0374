// The families of byte-level tokenizers, by the name that a model file gives as
// `tokenizer.ggml.pre`. What the name stands for is the tokenizer.json that the models of the
// family were published with.
#pragma once

#include <string>
#include <string_view>

#include "engine/pre_tokenizer.h"

namespace tinyloop::engine {

struct ByteLevelFamily {
  PreTokenizer first_piece;
  bool normalises = false;    // texts are brought to NFC first
  bool whole_pieces = false;  // a piece that is a token becomes that token, whatever the merges say
  bool adds_bos = false;      // texts begin with bos, if the file says nothing about it
};

// gpt-2; smollm; llama-bpe, also called llama3 and llama-v3; qwen2. nullptr: none of them.
const ByteLevelFamily* find_byte_level_family(std::string_view name) noexcept;

// All names, for messages: "gpt-2, smollm, ...".
std::string byte_level_family_names();

}  // namespace tinyloop::engine
