#include "engine/tokenizer_from_gguf.h"

#include <string>
#include <utility>

namespace tinyloop::engine {

namespace {

// .value() of the file's lookups throws base::Failure, which load_tokenizer catches.
std::optional<int32_t> optional_id(const GgufFile& file, const std::string& key) {
  if (!file.contains(key)) return std::nullopt;
  const int64_t id = file.i64(key).value();
  if (!std::in_range<int32_t>(id)) {
    throw base::Failure(file.error(
        errc::bad_model_file, key + " = " + std::to_string(id) + ", allowed are 32-bit token ids"));
  }
  return static_cast<int32_t>(id);
}

bool optional_flag(const GgufFile& file, const std::string& key) {
  return file.contains(key) && file.boolean(key).value();
}

void refuse_flag(const GgufFile& file, const std::string& key) {
  if (optional_flag(file, key)) {
    throw base::Failure(file.error(errc::unsupported_model, key + " = true, supported is false"));
  }
}

TokenizerData read_data(const GgufFile& file) {
  const std::string prefix = "tokenizer.ggml.";
  TokenizerData data;
  data.model = file.string(prefix + "model").value();
  data.pre = file.string(prefix + "pre").value();
  data.tokens = file.strings(prefix + "tokens").value();
  if (file.contains(prefix + "token_type")) {
    data.token_types = file.integers(prefix + "token_type").value();
  }
  data.merges = file.strings(prefix + "merges").value();
  data.bos = optional_id(file, prefix + "bos_token_id");
  data.eos = optional_id(file, prefix + "eos_token_id");
  data.unknown = optional_id(file, prefix + "unknown_token_id");
  data.padding = optional_id(file, prefix + "padding_token_id");
  data.add_bos = optional_flag(file, prefix + "add_bos_token");
  refuse_flag(file, prefix + "add_eos_token");
  refuse_flag(file, prefix + "add_space_prefix");
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
