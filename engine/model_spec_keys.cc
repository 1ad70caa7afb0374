// Which metadata keys the engine accepts. A key that could change the mathematics must be computed
// or refused; a key nobody here has heard of could, so it is refused too.
#include <algorithm>
#include <array>

#include "engine/gguf_text.h"
#include "engine/model_spec_metadata.h"

namespace tinyloop::engine {

namespace {

// Read by read_metadata, for either architecture.
constexpr std::array<std::string_view, 12> kCommonKeys = {"block_count",
                                                          "context_length",
                                                          "embedding_length",
                                                          "feed_forward_length",
                                                          "vocab_size",
                                                          "attention.head_count",
                                                          "attention.head_count_kv",
                                                          "attention.key_length",
                                                          "attention.value_length",
                                                          "attention.layer_norm_rms_epsilon",
                                                          "rope.freq_base",
                                                          "rope.dimension_count"};

// Read for `tinyloop` files alone.
constexpr std::array<std::string_view, 12> kLoopKeys = {
    "loop.prelude_layers", "loop.shared_layers", "loop.coda_layers",   "loop.default_iterations",
    "loop.max_iterations", "loop.injection",     "loop.initial_state", "loop.initial_state_std",
    "loop.exit",           "embedding_scale",    "logit_softcap",      "ffn_type"};

// Keys of other writers that mean "off" with one value, and something not computed here with any
// other.
struct NeutralKey {
  std::string_view key;
  std::string_view off;
};
constexpr std::array<NeutralKey, 7> kNeutralKeys = {{
    {"rope.scaling.type", "none"},
    {"rope.scaling.factor", "1"},
    {"rope.scale_linear", "1"},
    {"attention.sliding_window", "0"},
    {"attention.causal", "true"},
    {"expert_count", "0"},
    {"expert_used_count", "0"},
}};

std::string value_text(const GgufValue& value) {
  if (value.type == GgufType::string) return std::string(value.text());
  if (value.type == GgufType::boolean) return value.bytes[0] == std::byte{0} ? "false" : "true";
  if (value.type == GgufType::array) return "an array";
  return number_text(*to_number(value.type, value.bytes.data()));
}

template <size_t n>
bool contains(const std::array<std::string_view, n>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void check_key(const SpecKeys& keys, std::string_view key, const GgufValue& value) {
  if (contains(kCommonKeys, key)) return;
  if (keys.architecture() == "tinyloop" && contains(kLoopKeys, key)) return;
  const auto neutral = std::find_if(kNeutralKeys.begin(), kNeutralKeys.end(),
                                    [key](const NeutralKey& entry) { return entry.key == key; });
  if (neutral == kNeutralKeys.end()) {
    keys.fail(errc::unsupported_model, key, "has no meaning here");
  }
  if (const std::string found = value_text(value); found != neutral->off) {
    keys.fail(errc::unsupported_model, key,
              quoted(found) + " is not computed here, expected " + std::string(neutral->off));
  }
}

// Adapters and the like have the architecture of the model they belong to.
void refuse_parts_of_models(const GgufFile& file) {
  constexpr std::string_view kType = "general.type", kParts = "split.count";
  if (file.contains(kType)) {
    if (const auto type = file.string(kType).value(); type != "model") {
      throw base::Failure(file.error(errc::unsupported_model,
                                     key_text(kType) + ": " + quoted(type) + ", expected 'model'"));
    }
  }
  if (!file.contains(kParts)) return;
  if (const uint32_t parts = file.u32(kParts).value(); parts > 1) {
    throw base::Failure(file.error(
        errc::unsupported_model,
        key_text(kParts) + ": " + std::to_string(parts) + " files, expected the whole model in 1"));
  }
}

}  // namespace

void refuse_unsupported_keys(const SpecKeys& keys) {
  const GgufFile& file = keys.file();
  const std::string prefix = keys.full("");
  for (const GgufEntry& entry : file.entries()) {
    if (!entry.key.starts_with(prefix)) continue;
    check_key(keys, entry.key.substr(prefix.size()), entry.value);
  }
  refuse_parts_of_models(file);
}

}  // namespace tinyloop::engine
