// The tokens of a tokenizer: id -> text, type and bytes, and text -> id. Immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer_data.h"

namespace tinyloop::engine {

class Vocabulary {
 public:
  // Both throw base::Failure: bad_model_file for an empty vocabulary, an empty or repeated token, a
  // type list of another length, an unknown type.
  // Of a byte-level model: normal tokens are texts of byte_level.h's alphabet, the others plain.
  // Also bad_model_file: a normal token outside the alphabet; unsupported_model: byte tokens, which
  // only SentencePiece models have.
  static Vocabulary byte_level(const TokenizerData& data);
  // Of a SentencePiece model, spelled as in sentencepiece_text.h. Also bad_model_file: a byte token
  // of another form.
  static Vocabulary sentencepiece(const TokenizerData& data);

  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;  // ids_ holds views into texts_
  Vocabulary& operator=(const Vocabulary&) = delete;

  int32_t size() const noexcept { return static_cast<int32_t>(types_.size()); }
  bool contains(int32_t id) const noexcept { return id >= 0 && id < size(); }

  // These three need contains(id). The views live as long as the vocabulary. `bytes` is what the
  // token stands for in a text: nothing for control and unused tokens, and nothing for unknown
  // tokens of byte-level models.
  TokenType type(int32_t id) const noexcept { return types_[static_cast<size_t>(id)]; }
  std::string_view text(int32_t id) const noexcept { return texts_.at(id); }
  std::string_view bytes(int32_t id) const noexcept { return bytes_.at(id); }

  std::optional<int32_t> find(std::string_view text) const;
  size_t max_token_bytes() const noexcept { return max_token_bytes_; }

 private:
  // Many strings in one block, whose address stays the same when the vocabulary is moved.
  class StringTable {
   public:
    void append(std::string_view text);
    std::string_view at(int32_t id) const noexcept;

   private:
    std::vector<char> chars_;
    std::vector<size_t> ends_;
  };

  using BytesOf = std::string (*)(std::string_view text, TokenType type, int32_t id);

  Vocabulary(const TokenizerData& data, BytesOf bytes_of);
  void append(std::string_view text, TokenType type, std::string_view bytes);
  void index_texts();

  StringTable texts_, bytes_;
  std::vector<TokenType> types_;
  std::unordered_map<std::string_view, int32_t> ids_;
  size_t max_token_bytes_ = 0;
};

}  // namespace tinyloop::engine
