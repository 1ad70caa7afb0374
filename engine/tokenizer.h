// Text to token ids and back, as the model file describes it. Immutable: any number of threads may
// use one tokenizer at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "engine/byte_level_bpe.h"
#include "engine/sentencepiece_bpe.h"
#include "engine/special_tokens.h"
#include "engine/tokenizer_data.h"
#include "engine/vocabulary.h"

namespace tinyloop::engine {

struct EncodeOptions {
  // Begin with the file's bos token (if it has one). Unset: as the file says, or its family does.
  std::optional<bool> add_bos;
  // Control and unknown tokens that are written out in the text become those tokens; otherwise
  // their text is a text like any other. User-defined tokens are matched either way.
  bool parse_special = false;
};

struct DecodeOptions {
  // Control and unknown tokens as their text; otherwise as nothing, but for the unknown token of a
  // SentencePiece model, which is then kUnknownSurface.
  bool show_special = false;
};

class Tokenizer {
 public:
  // Supported: model `gpt2` (byte-level BPE) with the families of byte_level_family.h, and `llama`
  // (SentencePiece BPE). unsupported_model: another model or family. bad_model_file: data that
  // contradict themselves; the message names key, index, value and bound.
  static base::Result<Tokenizer> create(const TokenizerData& data);

  // Any bytes, also such that are not UTF-8: in byte-level models they are pieces of words like
  // other bytes (pre_tokenizer.h), in SentencePiece models they become byte tokens. With
  // parse_special, each stretch between two special tokens is a text of its own, with a space in
  // front where the model adds one. decode(encode(text)) with show_special gives the bytes of
  // `text` again, unless bos was added, a byte has no token of its own, the family normalises
  // texts, or a SentencePiece text has U+2581 in it, which becomes a space.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes of the tokens, one after the other; not sanitised. Where encode() adds a space, the
  // space that the first token begins with is dropped (with show_special, also that behind a
  // special token). Ids outside the vocabulary stand for nothing: a model may have more output rows
  // than its tokenizer has tokens.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // Bytes of one token in the middle of a text; lives as long as the tokenizer.
  std::string_view token_bytes(int32_t id, const DecodeOptions& options = {}) const noexcept;

  // decode() token by token: the bytes that `id` adds to the text. `at_start` is true before the
  // first token of a text; it is kept from one token to the next.
  std::string_view next_bytes(int32_t id, bool& at_start,
                              const DecodeOptions& options = {}) const noexcept;

  // The most that token_bytes returns for any token.
  size_t max_token_bytes() const noexcept { return vocabulary_.max_token_bytes(); }

  // The token's text in the file's own spelling ("Ġthe"), empty for ids outside the vocabulary;
  // and the token with that spelling.
  std::string_view piece(int32_t id) const noexcept;
  std::optional<int32_t> find_piece(std::string_view piece) const {
    return vocabulary_.find(piece);
  }

  int32_t vocab_size() const noexcept { return vocabulary_.size(); }
  std::optional<int32_t> bos() const noexcept { return bos_; }
  std::optional<int32_t> eos() const noexcept { return eos_; }
  std::optional<int32_t> padding() const noexcept { return padding_; }
  bool adds_bos() const noexcept { return add_bos_; }
  bool is_control(int32_t id) const noexcept;

 private:
  using Algorithm = std::variant<ByteLevelBpe, SentencePieceBpe>;

  explicit Tokenizer(const TokenizerData& data);
  Algorithm make_algorithm(const TokenizerData& data) const;
  void index_specials(bool with_user_defined);

  Vocabulary vocabulary_;
  std::optional<int32_t> bos_, eos_, padding_;
  Algorithm algorithm_;
  SpecialTokens user_defined_;  // matched always; empty where the algorithm does it
  SpecialTokens all_specials_;  // and with parse_special
  bool add_bos_ = false;
  bool adds_space_ = false;
};

}  // namespace tinyloop::engine
