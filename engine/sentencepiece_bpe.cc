#include "engine/sentencepiece_bpe.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "engine/gguf_text.h"
#include "engine/sentencepiece_text.h"

namespace tinyloop::engine {

namespace {

[[noreturn]] void fail(errc code, const std::string& detail) {
  throw base::Failure(code, detail);
}

void check_pre(const std::string& pre) {
  if (pre.empty() || pre == "default") return;
  fail(errc::unsupported_model,
       "tokenizer.ggml.pre = " + quoted(pre) +
           ", supported with tokenizer.ggml.model = 'llama' is 'default', or no such key");
}

std::vector<float> checked_scores(const TokenizerData& data) {
  if (data.scores.size() != data.tokens.size()) {
    fail(errc::bad_model_file, "tokenizer.ggml.scores has " + std::to_string(data.scores.size()) +
                                   " entries, tokenizer.ggml.tokens has " +
                                   std::to_string(data.tokens.size()));
  }
  for (size_t id = 0; id < data.scores.size(); ++id) {
    if (std::isfinite(data.scores[id])) continue;
    fail(errc::bad_model_file, "tokenizer.ggml.scores[" + std::to_string(id) + "] = " +
                                   number_text(data.scores[id]) + ", allowed are finite numbers");
  }
  return data.scores;
}

}  // namespace

SentencePieceBpe::SentencePieceBpe(const TokenizerData& data, const Vocabulary& vocabulary)
    : scores_(checked_scores(data)), adds_space_(data.add_space_prefix.value_or(true)) {
  check_pre(data.pre);
  index_bytes(data, vocabulary);
  index_user_defined(vocabulary);
}

void SentencePieceBpe::index_bytes(const TokenizerData& data, const Vocabulary& vocabulary) {
  constexpr int32_t kNone = -1;
  byte_ids_.fill(kNone);
  unknown_ = data.unknown;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view bytes = vocabulary.bytes(id);
    switch (vocabulary.type(id)) {
      case TokenType::byte:
        byte_ids_[static_cast<uint8_t>(bytes[0])] = id;
        break;
      case TokenType::unknown:
        if (!unknown_) unknown_ = id;
        break;
      case TokenType::normal:
      case TokenType::unused:
        longest_ = std::max(longest_, vocabulary.text(id).size());
        break;
      case TokenType::control:
      case TokenType::user_defined:
        break;
    }
  }
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    if (byte_ids_[byte] != kNone) continue;
    if (!unknown_) {
      fail(errc::bad_model_file, "tokenizer.ggml.tokens: no token of type 6 for byte " +
                                     std::to_string(byte) + ", and no unknown token in its place");
    }
    byte_ids_[byte] = *unknown_;
  }
}

void SentencePieceBpe::index_user_defined(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.type(id) != TokenType::user_defined) continue;
    ids.push_back(id);
    user_texts_.push_back(escape_spaces(vocabulary.text(id)));
  }
  std::vector<SpecialTokens::Entry> entries;
  for (size_t i = 0; i < ids.size(); ++i) entries.push_back({user_texts_[i], ids[i]});
  user_defined_ = SpecialTokens(std::move(entries));
}

void SentencePieceBpe::encode(std::string_view text, const Vocabulary& vocabulary,
                              std::vector<int32_t>& ids) const {
  if (text.empty()) return;
  const size_t begin = ids.size();
  const std::string escaped = (adds_space_ ? std::string(kSpaceSymbol) : "") + escape_spaces(text);
  PieceMerger merger(vocabulary, scores_, longest_);
  const auto encode_plain = [&](std::string_view rest) {
    while (!rest.empty()) {
      const std::string_view part = rest.substr(0, PieceMerger::kMaxText);
      for (const auto piece : merger.cut(part)) append_piece(piece, vocabulary, begin, ids);
      rest.remove_prefix(part.size());
    }
  };
  const std::string_view all = escaped;
  size_t done = 0;
  while (const auto match = user_defined_.find(all, done)) {
    encode_plain(all.substr(done, match->begin - done));
    ids.push_back(match->id);
    done = match->begin + match->length;
  }
  encode_plain(all.substr(done));
}

void SentencePieceBpe::append_piece(std::string_view piece, const Vocabulary& vocabulary,
                                    size_t begin, std::vector<int32_t>& ids) const {
  const auto id = vocabulary.find(piece);
  if (id && vocabulary.type(*id) == TokenType::normal) {
    ids.push_back(*id);
    return;
  }
  for (const char byte : piece) {
    const int32_t byte_id = byte_ids_[static_cast<uint8_t>(byte)];
    const bool repeats = byte_id == unknown_ && ids.size() > begin && ids.back() == byte_id;
    if (!repeats) ids.push_back(byte_id);
  }
}

}  // namespace tinyloop::engine
