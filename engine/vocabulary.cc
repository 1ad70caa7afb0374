#include "engine/vocabulary.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/byte_level.h"
#include "engine/gguf_text.h"
#include "engine/sentencepiece_text.h"

namespace tinyloop::engine {

namespace {

[[noreturn]] void fail(errc code, const std::string& detail) {
  throw base::Failure(code, detail);
}

std::string token_key(int32_t id, std::string_view text) {
  return "tokenizer.ggml.tokens[" + std::to_string(id) + "] = " + quoted(text);
}

void check_sizes(const TokenizerData& data) {
  constexpr size_t kMaxTokens = std::numeric_limits<int32_t>::max();
  const size_t count = data.tokens.size(), types = data.token_types.size();
  if (count == 0 || count > kMaxTokens) {
    fail(errc::bad_model_file, "tokenizer.ggml.tokens has " + std::to_string(count) +
                                   " entries, allowed are 1 to " + std::to_string(kMaxTokens));
  }
  if (types != 0 && types != count) {
    fail(errc::bad_model_file, "tokenizer.ggml.token_type has " + std::to_string(types) +
                                   " entries, tokenizer.ggml.tokens has " + std::to_string(count));
  }
}

TokenType type_of(const TokenizerData& data, int32_t id) {
  if (data.token_types.empty()) return TokenType::normal;
  const int32_t value = data.token_types[static_cast<size_t>(id)];
  if (value < 1 || value > 6) {
    fail(errc::bad_model_file, "tokenizer.ggml.token_type[" + std::to_string(id) +
                                   "] = " + std::to_string(value) + ", allowed are 1 to 6");
  }
  return static_cast<TokenType>(value);
}

std::string byte_level_bytes(std::string_view text, TokenType type, int32_t id) {
  if (type == TokenType::byte) {
    fail(errc::unsupported_model, "tokenizer.ggml.token_type[" + std::to_string(id) +
                                      "] = 6 (byte): not supported in a byte-level vocabulary");
  }
  if (type == TokenType::user_defined) return std::string(text);
  if (type != TokenType::normal) return {};
  auto bytes = decode_byte_level(text);
  if (!bytes) {
    fail(errc::bad_model_file,
         token_key(id, text) + ": a character outside the byte-level alphabet");
  }
  return *std::move(bytes);
}

std::string sentencepiece_bytes(std::string_view text, TokenType type, int32_t id) {
  switch (type) {
    case TokenType::normal:
    case TokenType::user_defined:
      return unescape_spaces(text);
    case TokenType::unknown:
      return std::string(kUnknownSurface);
    case TokenType::byte:
      break;
    case TokenType::control:
    case TokenType::unused:
      return {};
  }
  const auto byte = parse_byte_piece(text);
  if (!byte) {
    fail(errc::bad_model_file, token_key(id, text) +
                                   ": a token of type 6 (byte), allowed are "
                                   "'<0x00>' to '<0xFF>'");
  }
  return std::string(1, static_cast<char>(*byte));
}

}  // namespace

void Vocabulary::StringTable::append(std::string_view text) {
  chars_.insert(chars_.end(), text.begin(), text.end());
  ends_.push_back(chars_.size());
}

std::string_view Vocabulary::StringTable::at(int32_t id) const noexcept {
  const auto index = static_cast<size_t>(id);
  const size_t begin = index == 0 ? 0 : ends_[index - 1];
  return {chars_.data() + begin, ends_[index] - begin};
}

Vocabulary Vocabulary::byte_level(const TokenizerData& data) {
  return Vocabulary(data, byte_level_bytes);
}

Vocabulary Vocabulary::sentencepiece(const TokenizerData& data) {
  return Vocabulary(data, sentencepiece_bytes);
}

Vocabulary::Vocabulary(const TokenizerData& data, BytesOf bytes_of) {
  check_sizes(data);
  for (const std::string_view text : data.tokens) {
    const TokenType type = type_of(data, size());
    if (text.empty()) fail(errc::bad_model_file, token_key(size(), text) + ": an empty token");
    append(text, type, bytes_of(text, type, size()));
  }
  index_texts();
}

void Vocabulary::append(std::string_view text, TokenType type, std::string_view bytes) {
  texts_.append(text);
  bytes_.append(bytes);
  types_.push_back(type);
  const size_t shown = is_hidden(type) ? std::max(text.size(), bytes.size()) : bytes.size();
  max_token_bytes_ = std::max(max_token_bytes_, shown);
}

void Vocabulary::index_texts() {
  ids_.reserve(types_.size());
  for (int32_t id = 0; id < size(); ++id) {
    const auto [entry, is_new] = ids_.emplace(text(id), id);
    if (!is_new) {
      fail(errc::bad_model_file,
           token_key(id, text(id)) + ": the same text as token " + std::to_string(entry->second));
    }
  }
}

std::optional<int32_t> Vocabulary::find(std::string_view text) const {
  const auto entry = ids_.find(text);
  if (entry == ids_.end()) return std::nullopt;
  return entry->second;
}

}  // namespace tinyloop::engine
