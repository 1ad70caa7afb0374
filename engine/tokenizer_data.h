// A tokenizer as a model file describes it: plain data, nothing verified.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tinyloop::engine {

enum class TokenType : int32_t {  // values of `tokenizer.ggml.token_type`
  normal = 1,
  unknown = 2,       // stands for what the vocabulary has no token for
  control = 3,       // special: matched in a text only on request, not shown when decoding
  user_defined = 4,  // its text is plain, and always matched as a whole
  unused = 5,        // never produced, stands for nothing
  byte = 6,          // a byte of a SentencePiece vocabulary
};

// Of these tokens, decoding shows the text on request only.
constexpr bool is_hidden(TokenType type) {
  return type == TokenType::control || type == TokenType::unknown;
}

// The views must outlive the call that takes the data, not the tokenizer made from it. Behind each
// field: its key in the file, after `tokenizer.ggml.`.
struct TokenizerData {
  std::string model;                     // model
  std::string pre;                       // pre; may be empty (llama)
  std::vector<std::string_view> tokens;  // tokens: text by id
  std::vector<int32_t> token_types;      // token_type: one per token; empty: all are normal
  std::vector<float> scores;             // scores (llama): one per token, the highest merges first
  std::vector<std::string_view> merges;  // merges (gpt2): "left right", the best first
  std::optional<int32_t> bos;            // bos_token_id
  std::optional<int32_t> eos;            // eos_token_id
  std::optional<int32_t> unknown;        // unknown_token_id
  std::optional<int32_t> padding;        // padding_token_id
  std::optional<bool> add_bos;           // add_bos_token; unset: as the family does
  std::optional<bool> add_space_prefix;  // add_space_prefix (llama); unset: true
};

}  // namespace tinyloop::engine
