// Text to token ids with a byte-level BPE vocabulary: cut into pieces, each byte of a piece a
// token, neighbours merged.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/bpe.h"
#include "engine/byte_level_family.h"
#include "engine/tokenizer_data.h"
#include "engine/vocabulary.h"

namespace tinyloop::engine {

// Immutable; any thread may use it. The vocabulary is the one it was made with, at any address.
class ByteLevelBpe {
 public:
  // Throws base::Failure: unsupported_model for a `pre` that find_byte_level_family does not know;
  // bad_model_file for bad merges (bpe.h), and for a byte that has neither a normal token nor an
  // unknown token in its place.
  ByteLevelBpe(const TokenizerData& data, const Vocabulary& vocabulary);

  // Appends the ids of a text of any bytes.
  void encode(std::string_view text, const Vocabulary& vocabulary, std::vector<int32_t>& ids) const;

  bool adds_bos() const noexcept { return family_->adds_bos; }
  bool adds_space() const noexcept { return false; }
  // Whether encode() looks for user-defined tokens itself.
  static constexpr bool kMatchesUserDefined = false;

 private:
  void index_bytes(std::optional<int32_t> unknown, const Vocabulary& vocabulary);
  std::optional<int32_t> whole_token(std::string_view piece, const Vocabulary& vocabulary) const;

  const ByteLevelFamily* family_;
  Bpe bpe_;
  std::array<int32_t, 256> byte_ids_{};  // the token of each single byte
};

}  // namespace tinyloop::engine
