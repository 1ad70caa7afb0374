#include "engine/model_spec_metadata.h"

#include <cmath>

#include "engine/gguf_text.h"

namespace tinyloop::engine {

namespace {

std::string range_text(const std::string& value, const std::string& least,
                       const std::string& most) {
  return value + ", expected " + least + " to " + most;
}

// head_dim: its own key, else the model's width shared among the heads.
int32_t read_head_dim(const SpecKeys& keys, const ModelSpec& spec) {
  constexpr std::string_view kKey = "attention.key_length";
  if (!keys.contains(kKey) && spec.d_model % spec.heads != 0) {
    keys.fail(errc::bad_model_file, "attention.head_count",
              std::to_string(spec.heads) + " does not divide embedding_length " +
                  std::to_string(spec.d_model) + ", and there is no key_length");
  }
  const bool has_default = spec.architecture == "llama";
  const auto otherwise = has_default ? std::optional(spec.d_model / spec.heads) : std::nullopt;
  const int32_t head_dim = keys.integer(kKey, 2, kMaxHeadDim, otherwise);
  if (head_dim < 2 || head_dim > kMaxHeadDim || head_dim % 2 != 0) {
    keys.fail(errc::bad_model_file, kKey,
              std::to_string(head_dim) + ", expected an even number from 2 to " +
                  std::to_string(kMaxHeadDim));
  }
  return head_dim;
}

void read_attention(const SpecKeys& keys, ModelSpec& spec) {
  spec.heads = keys.integer("attention.head_count", 1, kMaxHeads);
  const auto all_heads = spec.architecture == "llama" ? std::optional(spec.heads) : std::nullopt;
  spec.kv_heads = keys.integer("attention.head_count_kv", 1, kMaxHeads, all_heads);
  if (spec.heads % spec.kv_heads != 0) {
    keys.fail(errc::bad_model_file, "attention.head_count_kv",
              std::to_string(spec.kv_heads) + " does not divide head_count " +
                  std::to_string(spec.heads));
  }
  spec.head_dim = read_head_dim(keys, spec);
  spec.eps = keys.number("attention.layer_norm_rms_epsilon", 1e-12, 1.0);
  const auto base = spec.architecture == "llama" ? std::optional(10000.0f) : std::nullopt;
  spec.rope_base = keys.number("rope.freq_base", 1.0, 1e12, base);
  for (const std::string_view key : {"rope.dimension_count", "attention.value_length"}) {
    const int32_t width = keys.integer(key, 0, kMaxModelWidth, spec.head_dim);
    if (width != spec.head_dim) {
      keys.fail(
          errc::unsupported_model, key,
          std::to_string(width) + ", expected the head's width " + std::to_string(spec.head_dim));
    }
  }
}

// `llama` files may leave the vocabulary's size to the embedding's shape.
int32_t read_vocab(const SpecKeys& keys) {
  constexpr std::string_view kKey = "vocab_size";
  const GgufTensor* embedding = keys.file().find_tensor("token_embd.weight");
  std::optional<int32_t> otherwise;
  if (keys.architecture() == "llama" && embedding && embedding->dims.size() == 2) {
    const uint64_t rows = embedding->dims[1];
    if (rows > uint64_t{kMaxVocab}) {
      keys.fail(errc::unsupported_model, kKey,
                "the embedding has " + std::to_string(rows) + " rows, expected at most " +
                    std::to_string(kMaxVocab));
    }
    otherwise = static_cast<int32_t>(rows);
  }
  const int32_t vocab = keys.integer(kKey, 1, kMaxVocab, otherwise);
  // A model may have rows without a token, but no token without a row.
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  const GgufValue* tokens = keys.file().find(kTokens);
  if (tokens != nullptr && tokens->count > uint64_t(vocab)) {
    throw base::Failure(keys.file().error(
        errc::bad_model_file, key_text(kTokens) + ": " +
                                  range_text(std::to_string(tokens->count) + " tokens", "1",
                                             "vocab_size " + std::to_string(vocab))));
  }
  return vocab;
}

void read_loop(const SpecKeys& keys, ModelSpec& spec) {
  const int32_t blocks = keys.integer("block_count", 1, kMaxLayers);
  if (spec.architecture == "llama") {
    spec.shared = blocks;
    spec.max_iterations = static_cast<int32_t>(kMaxIterations);
    return;
  }
  spec.prelude = keys.integer("loop.prelude_layers", 0, kMaxLayers);
  spec.shared = keys.integer("loop.shared_layers", 1, kMaxLayers);
  spec.coda = keys.integer("loop.coda_layers", 0, kMaxLayers);
  if (blocks != spec.block_count()) {
    keys.fail(errc::bad_model_file, "block_count",
              std::to_string(blocks) + ", expected " + std::to_string(spec.block_count()) +
                  " (prelude " + std::to_string(spec.prelude) + " + shared " +
                  std::to_string(spec.shared) + " + coda " + std::to_string(spec.coda) + ")");
  }
  spec.max_iterations = keys.integer("loop.max_iterations", 1, kMaxIterations);
  spec.default_iterations = keys.integer("loop.default_iterations", 1, kMaxIterations);
  if (spec.default_iterations > spec.max_iterations) {
    keys.fail(errc::bad_model_file, "loop.default_iterations",
              range_text(std::to_string(spec.default_iterations), "1",
                         "max_iterations " + std::to_string(spec.max_iterations)));
  }
}

// What only `tinyloop` files can ask for.
void read_options(const SpecKeys& keys, ModelSpec& spec) {
  constexpr std::string_view kInjections[] = {"none", "add", "linear", "diagonal"};
  constexpr std::string_view kStates[] = {"prelude", "zeros", "normal"};
  constexpr std::string_view kFfnTypes[] = {"swiglu", "relu2"};
  constexpr std::string_view kExits[] = {"none", "gate"};
  spec.injection = static_cast<Injection>(keys.choice("loop.injection", kInjections));
  spec.initial_state = static_cast<InitialState>(keys.choice("loop.initial_state", kStates));
  spec.ffn_type = static_cast<kernels::FfnType>(keys.choice("ffn_type", kFfnTypes));
  spec.exit = static_cast<ExitRule>(keys.choice("loop.exit", kExits));
  if (spec.initial_state == InitialState::normal) {
    spec.initial_state_std = keys.number("loop.initial_state_std", 1e-9, 1e3);
  }
  spec.embedding_scale = keys.number("embedding_scale", 1e-9, 1e6, 1.0f);
  spec.logit_softcap = keys.number("logit_softcap", 0.0, 1e6, 0.0f);
}

}  // namespace

void SpecKeys::fail(errc code, std::string_view key, const std::string& what) const {
  throw base::Failure(file_.error(code, key_text(full(key)) + ": " + what));
}

int32_t SpecKeys::integer(std::string_view key, int64_t least, int64_t most,
                          std::optional<int32_t> otherwise) const {
  if (otherwise && !contains(key)) return *otherwise;
  const int64_t value = file_.i64(full(key)).value();
  if (value < least || value > most) {
    fail(value < least ? errc::bad_model_file : errc::unsupported_model, key,
         range_text(std::to_string(value), std::to_string(least), std::to_string(most)));
  }
  return static_cast<int32_t>(value);
}

float SpecKeys::number(std::string_view key, double least, double most,
                       std::optional<float> otherwise) const {
  if (otherwise && !contains(key)) return *otherwise;
  const float value = file_.f32(full(key)).value();
  if (!std::isfinite(value) || value < least || value > most) {
    fail(errc::bad_model_file, key,
         range_text(number_text(value), number_text(least), number_text(most)));
  }
  return value;
}

size_t SpecKeys::choice(std::string_view key, std::span<const std::string_view> names) const {
  if (!contains(key)) return 0;
  const std::string_view value = file_.string(full(key)).value();
  std::string expected;
  for (size_t i = 0; i < names.size(); ++i) {
    if (value == names[i]) return i;
    expected += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  fail(errc::unsupported_model, key, quoted(value) + ", expected one of " + expected);
}

ModelSpec read_metadata(const SpecKeys& keys) {
  ModelSpec spec;
  spec.architecture = keys.architecture();
  if (keys.file().contains("general.name")) {
    spec.name = std::string(keys.file().string("general.name").value());
  }
  spec.d_model = keys.integer("embedding_length", 1, kMaxModelWidth);
  spec.ffn = keys.integer("feed_forward_length", 1, kMaxFfnWidth);
  spec.context_length = keys.integer("context_length", 1, kMaxContext);
  spec.vocab = read_vocab(keys);
  read_attention(keys, spec);
  read_loop(keys, spec);
  if (spec.architecture == "tinyloop") read_options(keys, spec);
  return spec;
}

}  // namespace tinyloop::engine
