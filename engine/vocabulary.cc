#include "engine/vocabulary.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/byte_level.h"
#include "engine/gguf_text.h"

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

TokenType type_of(const TokenizerData& data, size_t id) {
  if (data.token_types.empty()) return TokenType::normal;
  const int32_t value = data.token_types[id];
  const std::string key =
      "tokenizer.ggml.token_type[" + std::to_string(id) + "] = " + std::to_string(value);
  if (value < 1 || value > 6) fail(errc::bad_model_file, key + ", allowed are 1 to 6");
  if (value == static_cast<int32_t>(TokenType::byte)) {
    fail(errc::unsupported_model, key + " (byte): not supported in a byte-level vocabulary");
  }
  return static_cast<TokenType>(value);
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
  check_sizes(data);
  Vocabulary vocabulary;
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    vocabulary.append(data.tokens[id], type_of(data, id));
  }
  vocabulary.index_texts();
  return vocabulary;
}

void Vocabulary::append(std::string_view text, TokenType type) {
  if (text.empty()) fail(errc::bad_model_file, token_key(size(), text) + ": an empty token");
  std::string bytes;
  if (type == TokenType::normal) {
    auto decoded = decode_byte_level(text);
    if (!decoded) {
      fail(errc::bad_model_file,
           token_key(size(), text) + ": a character outside the byte-level alphabet");
    }
    bytes = std::move(*decoded);
  } else if (type != TokenType::unused) {
    bytes = text;
  }
  texts_.append(text);
  bytes_.append(bytes);
  types_.push_back(type);
  max_token_bytes_ = std::max(max_token_bytes_, bytes.size());
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
