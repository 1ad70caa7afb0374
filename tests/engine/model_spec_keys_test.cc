// Keys that TinyLoop does not compute: refused by name where they could change the mathematics,
// else let pass.
#include <utility>

#include "tests/engine/broken_model.h"

namespace tinyloop::engine {
namespace {

// Keys that other engines compute with, each with a value that switches something on.
std::vector<std::pair<const char*, Change>> foreign_keys(const std::string& architecture) {
  std::vector<std::pair<const char*, Change>> keys;
  const auto add = [&](const char* key, auto set) {
    keys.emplace_back(key, [=, name = architecture + "." + key](GgufWriter& w) { set(w, name); });
  };
  const auto number = [](GgufWriter& writer, const std::string& key) { writer.f32(key, 2.5f); };
  const auto count = [](GgufWriter& writer, const std::string& key) { writer.u32(key, 2); };
  const auto flag = [](GgufWriter& writer, const std::string& key) { writer.boolean(key, true); };
  const auto list = [](GgufWriter& writer, const std::string& key) {
    writer.integers(key, {1, 2});
  };
  for (const char* key : {"rope.scaling.factor",
                          "rope.scale_linear",
                          "rope.scaling.attn_factor",
                          "rope.scaling.alpha",
                          "rope.scaling.yarn_log_multiplier",
                          "rope.scaling.yarn_ext_factor",
                          "rope.scaling.yarn_attn_factor",
                          "rope.scaling.yarn_beta_fast",
                          "rope.scaling.yarn_beta_slow",
                          "rope.freq_base_swa",
                          "rope.freq_scale",
                          "attention.clamp_kqv",
                          "attention.max_alibi_bias",
                          "attention.layer_norm_epsilon",
                          "attention.group_norm_epsilon",
                          "attention.scale",
                          "attention.output_scale",
                          "attention.value_scale",
                          "attention.temperature_scale",
                          "attn_logit_softcapping",
                          "final_logit_softcapping",
                          "router_logit_softcapping",
                          "logit_scale",
                          "residual_scale",
                          "expert_weights_scale"}) {
    add(key, number);
  }
  for (const char* key : {"rope.dimension_count",
                          "rope.scaling.original_context_length",
                          "attention.sliding_window",
                          "attention.sliding_window_pattern",
                          "attention.temperature_length",
                          "attention.key_length_mla",
                          "attention.value_length_mla",
                          "attention.q_lora_rank",
                          "attention.kv_lora_rank",
                          "attention.group_norm_groups",
                          "attention.block_count",
                          "attention.shared_kv_layers",
                          "attention.indexer.top_k",
                          "expert_count",
                          "expert_used_count",
                          "expert_shared_count",
                          "expert_group_count",
                          "expert_feed_forward_length",
                          "expert_gating_func",
                          "interleave_moe_layer_step",
                          "leading_dense_block_count",
                          "full_attention_interval",
                          "pooling_type",
                          "nextn_predict_layers",
                          "embedding_length_out",
                          "ssm.state_size",
                          "a_key_from_tomorrow"}) {
    add(key, count);
  }
  for (const char* key : {"rope.scaling.finetuned", "use_parallel_residual", "swin_norm",
                          "expert_weights_norm", "attention.rope_interleaved"}) {
    add(key, flag);
  }
  for (const char* key : {"rope.dimension_sections", "rope.scaling.long_factors",
                          "swiglu_clamp_exp", "attention.recurrent_layers"}) {
    add(key, list);
  }
  for (const char* type : {"linear", "yarn", "longrope", "dynamic", ""}) {
    add("rope.scaling.type", [=](GgufWriter& w, const std::string& key) { w.string(key, type); });
  }
  add("attention.causal", [](GgufWriter& w, const std::string& key) { w.boolean(key, false); });
  add("tensor_data_layout", [](GgufWriter& w, const std::string& key) { w.string(key, "other"); });
  return keys;
}

void expect_all_refused(const GgufWriter& good, const std::string& architecture) {
  ASSERT_TRUE(read_broken(good.bytes()).has_value());
  for (const auto& [key, change] : foreign_keys(architecture)) {
    GgufWriter writer = good;
    change(writer);
    const auto result = read_broken(writer.bytes());
    ASSERT_TRUE(result.has_error()) << key;
    EXPECT_EQ(result.error().code, kUnsupported) << result.error().detail;
    const std::string start = "broken.gguf: key '" + architecture + "." + key + "': ";
    EXPECT_TRUE(result.error().detail.starts_with(start)) << result.error().detail;
  }
}

TEST(ModelSpecKeys, WhatIsNotComputedIsRefusedInATinyloopFile) {
  expect_all_refused(tinyloop::testing::random_model_writer({}), "tinyloop");
}

TEST(ModelSpecKeys, WhatIsNotComputedIsRefusedInALlamaFile) {
  const GgufWriter good = tinyloop::testing::llama_model_writer({});
  expect_all_refused(good, "llama");
  // What only the other architecture computes.
  for (const char* key : {"llama.embedding_scale", "llama.logit_softcap", "llama.ffn_type",
                          "llama.loop.shared_layers", "llama.loop.max_iterations"}) {
    GgufWriter writer = good;
    writer.f32(key, 2.0f);
    const auto result = read_broken(writer.bytes());
    ASSERT_TRUE(result.has_error()) << key;
    EXPECT_EQ(result.error().code, kUnsupported) << result.error().detail;
    EXPECT_NE(result.error().detail.find(key), std::string::npos) << result.error().detail;
  }
}

// Dimensions that differ from layer to layer are lists.
TEST(ModelSpecKeys, ListsInPlaceOfADimensionAreRefused) {
  for (const char* key :
       {"tinyloop.attention.head_count", "tinyloop.attention.head_count_kv",
        "tinyloop.feed_forward_length", "tinyloop.attention.layer_norm_rms_epsilon"}) {
    GgufWriter writer = tinyloop::testing::random_model_writer({});
    writer.integers(key, {2, 2, 2, 2});
    const auto result = read_broken(writer.bytes());
    ASSERT_TRUE(result.has_error()) << key;
    EXPECT_EQ(result.error().code, kBad);
    EXPECT_NE(result.error().detail.find(key), std::string::npos) << result.error().detail;
  }
}

TEST(ModelSpecKeys, WhatChangesNothingPasses) {
  for (GgufWriter writer :
       {tinyloop::testing::random_model_writer({}), tinyloop::testing::llama_model_writer({})}) {
    for (const char* key :
         {"general.author", "general.license", "general.basename", "general.source.url",
          "general.a_key_from_tomorrow", "tokenizer.chat_template",
          "tokenizer.chat_template.tool_use", "quantize.imatrix.file"}) {
      writer.string(key, "text");
    }
    writer.string("general.type", "model");
    writer.u32("general.file_type", 3);
    writer.u32("general.quantization_version", 2);
    writer.strings("general.tags", {"a", "b"});
    writer.strings("general.languages", {});
    writer.u32("quantize.imatrix.entries_count", 3);
    writer.u32("split.count", 1);
    writer.u32("split.no", 0);
    const auto result = read_broken(writer.bytes());
    EXPECT_TRUE(result.has_value()) << result.error().detail;
  }
}

}  // namespace
}  // namespace tinyloop::engine
