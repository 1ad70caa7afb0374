#include "engine/tokenizer_from_gguf.h"

#include <string>
#include <utility>

namespace tinyloop::engine {

namespace {

std::string key(std::string_view name) {
  return "tokenizer.ggml." + std::string(name);
}

// .value() of the file's lookups throws base::Failure, which load_tokenizer catches.
std::optional<int32_t> optional_id(const GgufFile& file, const std::string& name) {
  if (!file.contains(name)) return std::nullopt;
  const int64_t id = file.i64(name).value();
  if (!std::in_range<int32_t>(id)) {
    throw base::Failure(file.error(errc::bad_model_file, name + " = " + std::to_string(id) +
                                                             ", allowed are 32-bit token ids"));
  }
  return static_cast<int32_t>(id);
}

std::optional<bool> optional_flag(const GgufFile& file, const std::string& name) {
  if (!file.contains(name)) return std::nullopt;
  return file.boolean(name).value();
}

void refuse_flag(const GgufFile& file, const std::string& name) {
  if (optional_flag(file, name).value_or(false)) {
    throw base::Failure(file.error(errc::unsupported_model, name + " = true, supported is false"));
  }
}

void read_gpt2(const GgufFile& file, TokenizerData& data) {
  data.pre = file.string(key("pre")).value();
  data.merges = file.strings(key("merges")).value();
  refuse_flag(file, key("add_space_prefix"));
}

// Some writers add merges, too; the scores say the same.
void read_llama(const GgufFile& file, TokenizerData& data) {
  if (file.contains(key("pre"))) data.pre = file.string(key("pre")).value();
  data.scores = file.floats(key("scores")).value();
  data.add_space_prefix = optional_flag(file, key("add_space_prefix"));
  refuse_flag(file, key("remove_extra_whitespaces"));
  const std::string map = key("precompiled_charsmap");
  if (file.contains(map)) {
    throw base::Failure(file.error(errc::unsupported_model,
                                   map + ": supported are tokenizers without normalisation"));
  }
}

TokenizerData read_data(const GgufFile& file) {
  TokenizerData data;
  data.model = file.string(key("model")).value();
  data.tokens = file.strings(key("tokens")).value();
  if (file.contains(key("token_type"))) {
    data.token_types = file.integers(key("token_type")).value();
  }
  data.bos = optional_id(file, key("bos_token_id"));
  data.eos = optional_id(file, key("eos_token_id"));
  data.unknown = optional_id(file, key("unknown_token_id"));
  data.padding = optional_id(file, key("padding_token_id"));
  data.add_bos = optional_flag(file, key("add_bos_token"));
  refuse_flag(file, key("add_eos_token"));
  if (data.model == "gpt2") read_gpt2(file, data);
  if (data.model == "llama") read_llama(file, data);
  return data;
}

}  // namespace

base::Result<std::optional<Tokenizer>> load_tokenizer(const GgufFile& file) {
  if (!file.contains("tokenizer.ggml.model")) return std::optional<Tokenizer>();
  try {
    auto tokenizer = Tokenizer::create(read_data(file));
    if (!tokenizer) return file.error(tokenizer.error().code, tokenizer.error().detail);
    return std::optional<Tokenizer>(std::move(*tokenizer));
  } catch (const base::Failure& failure) {
    return failure.error();
  }
}

}  // namespace tinyloop::engine
