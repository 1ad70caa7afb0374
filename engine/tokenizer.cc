#include "engine/tokenizer.h"

#include <utility>

#include "engine/gguf_text.h"

namespace tinyloop::engine {

namespace {

[[noreturn]] void fail(errc code, const std::string& detail) {
  throw base::Failure(code, detail);
}

Vocabulary vocabulary_of(const TokenizerData& data) {
  if (data.model == "gpt2") return Vocabulary::byte_level(data);
  if (data.model == "llama") return Vocabulary::sentencepiece(data);
  fail(errc::unsupported_model,
       "tokenizer.ggml.model = " + quoted(data.model) + ", supported are gpt2 and llama");
}

std::optional<int32_t> checked_id(std::optional<int32_t> id, const char* name, int32_t size) {
  if (id && (*id < 0 || *id >= size)) {
    fail(errc::bad_model_file, "tokenizer.ggml." + std::string(name) + " = " + std::to_string(*id) +
                                   ", allowed are 0 to " + std::to_string(size - 1));
  }
  return id;
}

}  // namespace

base::Result<Tokenizer> Tokenizer::create(const TokenizerData& data) {
  try {
    return Tokenizer(data);
  } catch (const base::Failure& failure) {
    return failure.error();
  }
}

Tokenizer::Tokenizer(const TokenizerData& data)
    : vocabulary_(vocabulary_of(data)),
      bos_(checked_id(data.bos, "bos_token_id", vocabulary_.size())),
      eos_(checked_id(data.eos, "eos_token_id", vocabulary_.size())),
      padding_(checked_id(data.padding, "padding_token_id", vocabulary_.size())),
      algorithm_(make_algorithm(data)) {
  if (data.add_bos.value_or(false) && !bos_) {
    fail(errc::bad_model_file,
         "tokenizer.ggml.add_bos_token = true, but tokenizer.ggml.bos_token_id is missing");
  }
  std::visit(
      [&](const auto& algorithm) {
        add_bos_ = bos_ && data.add_bos.value_or(algorithm.adds_bos());
        adds_space_ = algorithm.adds_space();
        index_specials(!algorithm.kMatchesUserDefined);
      },
      algorithm_);
}

Tokenizer::Algorithm Tokenizer::make_algorithm(const TokenizerData& data) const {
  checked_id(data.unknown, "unknown_token_id", vocabulary_.size());
  if (data.model == "llama") return SentencePieceBpe(data, vocabulary_);
  return ByteLevelBpe(data, vocabulary_);
}

void Tokenizer::index_specials(bool with_user_defined) {
  std::vector<SpecialTokens::Entry> user_defined, all;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const TokenType type = vocabulary_.type(id);
    const SpecialTokens::Entry entry{vocabulary_.text(id), id};
    const bool is_user_defined = with_user_defined && type == TokenType::user_defined;
    if (is_user_defined) user_defined.push_back(entry);
    if (is_user_defined || is_hidden(type)) all.push_back(entry);
  }
  user_defined_ = SpecialTokens(std::move(user_defined));
  all_specials_ = SpecialTokens(std::move(all));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const SpecialTokens& specials = options.parse_special ? all_specials_ : user_defined_;
  std::vector<int32_t> ids;
  if (options.add_bos.value_or(add_bos_) && bos_) ids.push_back(*bos_);
  const auto encode_plain = [&](std::string_view part) {
    std::visit([&](const auto& algorithm) { algorithm.encode(part, vocabulary_, ids); },
               algorithm_);
  };
  size_t done = 0;
  while (const auto match = specials.find(text, done)) {
    encode_plain(text.substr(done, match->begin - done));
    ids.push_back(match->id);
    done = match->begin + match->length;
  }
  encode_plain(text.substr(done));
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  std::string bytes;
  bool at_start = true;
  for (const int32_t id : ids) bytes += next_bytes(id, at_start, options);
  return bytes;
}

std::string_view Tokenizer::token_bytes(int32_t id, const DecodeOptions& options) const noexcept {
  if (!vocabulary_.contains(id)) return {};
  const bool as_text = options.show_special && is_hidden(vocabulary_.type(id));
  return as_text ? vocabulary_.text(id) : vocabulary_.bytes(id);
}

std::string_view Tokenizer::next_bytes(int32_t id, bool& at_start,
                                       const DecodeOptions& options) const noexcept {
  std::string_view bytes = token_bytes(id, options);
  if (bytes.empty()) return bytes;
  const TokenType type = vocabulary_.type(id);
  const bool may_have_prefix = type == TokenType::normal || type == TokenType::user_defined;
  if (adds_space_ && at_start && may_have_prefix && bytes[0] == ' ') bytes.remove_prefix(1);
  at_start = options.show_special && type == TokenType::control;
  return bytes;
}

std::string_view Tokenizer::piece(int32_t id) const noexcept {
  return vocabulary_.contains(id) ? vocabulary_.text(id) : std::string_view();
}

bool Tokenizer::is_control(int32_t id) const noexcept {
  return vocabulary_.contains(id) && vocabulary_.type(id) == TokenType::control;
}

}  // namespace tinyloop::engine
