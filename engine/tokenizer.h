// Text to token ids and back, as the model file describes it. Immutable: any number of threads may
// use one tokenizer at the same time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/bpe.h"
#include "engine/pre_tokenizer.h"
#include "engine/special_tokens.h"
#include "engine/tokenizer_data.h"
#include "engine/vocabulary.h"

namespace tinyloop::engine {

struct EncodeOptions {
  // Begin with the file's bos token (if it has one). Unset: as the file says.
  std::optional<bool> add_bos;
  // Control and unknown tokens that are written out in the text become those tokens; otherwise
  // their text is a text like any other. User-defined tokens are matched either way.
  bool parse_special = false;
};

struct DecodeOptions {
  bool show_special = false;  // control and unknown tokens as their text; otherwise as nothing
};

class Tokenizer {
 public:
  // Supported: model `gpt2` (byte-level BPE) with the pre-tokenizers of PreTokenizer::find.
  // unsupported_model: another model or pre-tokenizer. bad_model_file: data that contradict
  // themselves; the message names key, index, value and bound.
  static base::Result<Tokenizer> create(const TokenizerData& data);

  // Any bytes, also such that are not UTF-8 (pre_tokenizer.h says how they are cut). With
  // show_special, decode(encode(text)) == text byte for byte, unless bos was added or a byte is
  // missing from the vocabulary (then the file has an unknown token, which stands for it).
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The exact bytes of the tokens, one after the other; not sanitised. Ids outside the vocabulary
  // stand for nothing: a model may have more output rows than its tokenizer has tokens.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // Bytes of one token as decode() shows it; lives as long as the tokenizer.
  std::string_view token_bytes(int32_t id, const DecodeOptions& options = {}) const noexcept;
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
  Tokenizer(const TokenizerData& data, PreTokenizer pre_tokenizer);

  void index_bytes(std::optional<int32_t> unknown);
  void index_specials();
  void encode_plain(std::string_view text, Bpe::Workspace& workspace, std::vector<int32_t>& word,
                    std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  Bpe bpe_;
  PreTokenizer pre_tokenizer_;
  std::array<int32_t, 256> byte_ids_{};  // the token of each single byte
  SpecialTokens user_defined_;           // matched always
  SpecialTokens all_specials_;           // and with parse_special
  std::optional<int32_t> bos_, eos_, padding_;
  bool add_bos_ = false;
};

}  // namespace tinyloop::engine
