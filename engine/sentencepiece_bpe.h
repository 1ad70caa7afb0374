// Text to token ids with a SentencePiece vocabulary of type BPE, without normalisation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/piece_merger.h"
#include "engine/special_tokens.h"
#include "engine/tokenizer_data.h"
#include "engine/vocabulary.h"

namespace tinyloop::engine {

// Immutable; any thread may use it. The vocabulary is the one it was made with, at any address.
class SentencePieceBpe {
 public:
  // Throws base::Failure: bad_model_file for scores of another number than the tokens or that are
  // not finite, and for a byte that has neither a token nor an unknown token in its place;
  // unsupported_model for a `pre` that is neither empty nor "default".
  SentencePieceBpe(const TokenizerData& data, const Vocabulary& vocabulary);
  // A copy's views would point into the original; a move takes what they point into along.
  SentencePieceBpe(const SentencePieceBpe&) = delete;
  SentencePieceBpe(SentencePieceBpe&&) noexcept = default;
  SentencePieceBpe& operator=(SentencePieceBpe&&) noexcept = default;

  // Appends the ids of a text of any bytes. A space comes first where the file asks for it, unless
  // the text is empty. User-defined tokens are matched, and nothing merges with them. A character
  // without a token becomes its byte tokens; without those, it and its like next to it become one
  // unknown token.
  void encode(std::string_view text, const Vocabulary& vocabulary, std::vector<int32_t>& ids) const;

  bool adds_bos() const noexcept { return true; }
  bool adds_space() const noexcept { return adds_space_; }
  // Whether encode() looks for user-defined tokens itself.
  static constexpr bool kMatchesUserDefined = true;

 private:
  void index_bytes(const TokenizerData& data, const Vocabulary& vocabulary);
  void index_user_defined(const Vocabulary& vocabulary);
  void append_piece(std::string_view piece, const Vocabulary& vocabulary, size_t begin,
                    std::vector<int32_t>& ids) const;

  std::vector<float> scores_;
  size_t longest_ = 0;                   // bytes of the longest token that merges make
  std::array<int32_t, 256> byte_ids_{};  // the token of each byte, or unknown_
  std::optional<int32_t> unknown_;
  std::vector<std::string> user_texts_;  // spaces escaped
  SpecialTokens user_defined_;           // views into user_texts_
  bool adds_space_;
};

}  // namespace tinyloop::engine
