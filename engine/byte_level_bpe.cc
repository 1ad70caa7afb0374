#include "engine/byte_level_bpe.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "engine/byte_level.h"
#include "engine/gguf_text.h"
#include "engine/nfc.h"

namespace tinyloop::engine {

namespace {

const ByteLevelFamily* family_of(const TokenizerData& data) {
  if (const ByteLevelFamily* family = find_byte_level_family(data.pre)) return family;
  throw base::Failure(errc::unsupported_model,
                      "tokenizer.ggml.pre = " + quoted(data.pre) +
                          ", supported with tokenizer.ggml.model = 'gpt2' are " +
                          byte_level_family_names());
}

}  // namespace

ByteLevelBpe::ByteLevelBpe(const TokenizerData& data, const Vocabulary& vocabulary)
    : family_(family_of(data)), bpe_(vocabulary, data.merges) {
  index_bytes(data.unknown, vocabulary);
}

void ByteLevelBpe::index_bytes(std::optional<int32_t> unknown, const Vocabulary& vocabulary) {
  for (unsigned byte = 0; byte < byte_ids_.size(); ++byte) {
    const std::string symbol = encode_byte_level(std::string(1, static_cast<char>(byte)));
    auto id = vocabulary.find(symbol);
    if (id && vocabulary.type(*id) != TokenType::normal) id.reset();
    if (!id) id = unknown;
    if (!id) {
      throw base::Failure(errc::bad_model_file,
                          "tokenizer.ggml.tokens: no normal token " + quoted(symbol) +
                              " for byte " + std::to_string(byte) +
                              ", and no tokenizer.ggml.unknown_token_id in its place");
    }
    byte_ids_[byte] = *id;
  }
}

void ByteLevelBpe::encode(std::string_view text, const Vocabulary& vocabulary,
                          std::vector<int32_t>& ids) const {
  std::string normalised;
  if (family_->normalises) text = normalised = normalise_nfc(text);
  Bpe::Workspace workspace;
  std::vector<int32_t> word;
  while (!text.empty()) {
    const auto piece = text.substr(0, std::min(family_->first_piece(text), Bpe::kMaxWord));
    text.remove_prefix(piece.size());
    if (const auto whole = whole_token(piece, vocabulary)) {
      ids.push_back(*whole);
      continue;
    }
    word.clear();
    for (const char byte : piece) word.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    bpe_.merge(word, workspace, ids);
  }
}

std::optional<int32_t> ByteLevelBpe::whole_token(std::string_view piece,
                                                 const Vocabulary& vocabulary) const {
  if (!family_->whole_pieces || piece.size() > vocabulary.max_token_bytes()) return std::nullopt;
  const auto id = vocabulary.find(encode_byte_level(piece));
  return id && vocabulary.type(*id) == TokenType::normal ? id : std::nullopt;
}

}  // namespace tinyloop::engine
