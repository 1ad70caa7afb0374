#include "engine/tokenizer.h"

#include <algorithm>
#include <utility>

#include "engine/byte_level.h"
#include "engine/gguf_text.h"

namespace tinyloop::engine {

namespace {

[[noreturn]] void fail(errc code, const std::string& detail) {
  throw base::Failure(code, detail);
}

PreTokenizer find_parts(const TokenizerData& data) {
  if (data.model != "gpt2") {
    fail(errc::unsupported_model,
         "tokenizer.ggml.model = " + quoted(data.model) + ", supported is \"gpt2\"");
  }
  const auto pre = PreTokenizer::find(data.pre);
  if (!pre) {
    fail(errc::unsupported_model,
         "tokenizer.ggml.pre = " + quoted(data.pre) + ", supported is \"gpt-2\"");
  }
  return *pre;
}

std::optional<int32_t> checked_id(std::optional<int32_t> id, const char* name, int32_t size) {
  if (id && (*id < 0 || *id >= size)) {
    fail(errc::bad_model_file, "tokenizer.ggml." + std::string(name) + " = " + std::to_string(*id) +
                                   ", allowed are 0 to " + std::to_string(size - 1));
  }
  return id;
}

bool is_hidden(TokenType type) {
  return type == TokenType::control || type == TokenType::unknown;
}

}  // namespace

base::Result<Tokenizer> Tokenizer::create(const TokenizerData& data) {
  try {
    return Tokenizer(data, find_parts(data));
  } catch (const base::Failure& failure) {
    return failure.error();
  }
}

Tokenizer::Tokenizer(const TokenizerData& data, PreTokenizer pre_tokenizer)
    : vocabulary_(Vocabulary::byte_level(data)),
      bpe_(vocabulary_, data.merges),
      pre_tokenizer_(pre_tokenizer),
      bos_(checked_id(data.bos, "bos_token_id", vocabulary_.size())),
      eos_(checked_id(data.eos, "eos_token_id", vocabulary_.size())),
      padding_(checked_id(data.padding, "padding_token_id", vocabulary_.size())),
      add_bos_(data.add_bos) {
  if (add_bos_ && !bos_) {
    fail(errc::bad_model_file,
         "tokenizer.ggml.add_bos_token = true, but tokenizer.ggml.bos_token_id is missing");
  }
  index_bytes(checked_id(data.unknown, "unknown_token_id", vocabulary_.size()));
  index_specials();
}

void Tokenizer::index_bytes(std::optional<int32_t> unknown) {
  for (unsigned byte = 0; byte < byte_ids_.size(); ++byte) {
    const std::string symbol = encode_byte_level(std::string(1, static_cast<char>(byte)));
    auto id = vocabulary_.find(symbol);
    if (id && vocabulary_.type(*id) != TokenType::normal) id.reset();
    if (!id) id = unknown;
    if (!id) {
      fail(errc::bad_model_file, "tokenizer.ggml.tokens: no normal token " + quoted(symbol) +
                                     " for byte " + std::to_string(byte) +
                                     ", and no tokenizer.ggml.unknown_token_id in its place");
    }
    byte_ids_[byte] = *id;
  }
}

void Tokenizer::index_specials() {
  std::vector<SpecialTokens::Entry> user_defined, all;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const TokenType type = vocabulary_.type(id);
    const SpecialTokens::Entry entry{vocabulary_.text(id), id};
    if (type == TokenType::user_defined) user_defined.push_back(entry);
    if (type == TokenType::user_defined || is_hidden(type)) all.push_back(entry);
  }
  user_defined_ = SpecialTokens(std::move(user_defined));
  all_specials_ = SpecialTokens(std::move(all));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const SpecialTokens& specials = options.parse_special ? all_specials_ : user_defined_;
  std::vector<int32_t> ids, word;
  Bpe::Workspace workspace;
  if (options.add_bos.value_or(add_bos_) && bos_) ids.push_back(*bos_);
  size_t done = 0;
  while (const auto match = specials.find(text, done)) {
    encode_plain(text.substr(done, match->begin - done), workspace, word, ids);
    ids.push_back(match->id);
    done = match->begin + match->length;
  }
  encode_plain(text.substr(done), workspace, word, ids);
  return ids;
}

void Tokenizer::encode_plain(std::string_view text, Bpe::Workspace& workspace,
                             std::vector<int32_t>& word, std::vector<int32_t>& ids) const {
  while (!text.empty()) {
    const size_t length = std::min(pre_tokenizer_.first_piece(text), Bpe::kMaxWord);
    word.clear();
    for (const char byte : text.substr(0, length)) {
      word.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    }
    bpe_.merge(word, workspace, ids);
    text.remove_prefix(length);
  }
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  std::string bytes;
  for (const int32_t id : ids) bytes += token_bytes(id, options);
  return bytes;
}

std::string_view Tokenizer::token_bytes(int32_t id, const DecodeOptions& options) const noexcept {
  if (!vocabulary_.contains(id)) return {};
  if (is_hidden(vocabulary_.type(id)) && !options.show_special) return {};
  return vocabulary_.bytes(id);
}

std::string_view Tokenizer::piece(int32_t id) const noexcept {
  return vocabulary_.contains(id) ? vocabulary_.text(id) : std::string_view();
}

bool Tokenizer::is_control(int32_t id) const noexcept {
  return vocabulary_.contains(id) && vocabulary_.type(id) == TokenType::control;
}

}  // namespace tinyloop::engine
