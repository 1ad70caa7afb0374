// Well-formed files whose keys or tensors make no model, or one that is not computed here.
#include <cmath>

#include "tests/engine/broken_model.h"

namespace tinyloop::engine {
namespace {

std::vector<Broken> metadata_cases() {
  return {
      {"no_architecture", no_key("general.architecture"), kBad,
       "key 'general.architecture': is missing"},
      {"architecture", text("general.architecture", "mamba"), kUnsupported,
       "key 'general.architecture': 'mamba', expected 'tinyloop' or 'llama'"},
      {"architecture_type", u32("general.architecture", 1), kBad, "type u32, expected string"},
      {"no_width", no_key("tinyloop.embedding_length"), kBad,
       "key 'tinyloop.embedding_length': is missing"},
      {"width_zero", u32("tinyloop.embedding_length", 0), kBad,
       "key 'tinyloop.embedding_length': 0, expected 1 to 65536"},
      {"width_huge", u32("tinyloop.embedding_length", 65537), kUnsupported,
       "key 'tinyloop.embedding_length': 65537, expected 1 to 65536"},
      {"width_type", text("tinyloop.embedding_length", "64"), kBad, "expected an integer"},
      {"width_negative", [](GgufWriter& writer) { writer.i32("tinyloop.embedding_length", -64); },
       kBad, "key 'tinyloop.embedding_length': -64"},
      {"ffn_zero", u32("tinyloop.feed_forward_length", 0), kBad, "feed_forward_length': 0"},
      {"vocab_zero", u32("tinyloop.vocab_size", 0), kBad, "vocab_size': 0, expected 1 to"},
      {"context_zero", u32("tinyloop.context_length", 0), kBad, "context_length': 0"},
      {"heads_zero", u32("tinyloop.attention.head_count", 0), kBad, "head_count': 0"},
      {"kv_heads", u32("tinyloop.attention.head_count_kv", 3), kBad,
       "key 'tinyloop.attention.head_count_kv': 3 does not divide head_count 4"},
      {"head_dim_odd", u32("tinyloop.attention.key_length", 15), kBad,
       "key 'tinyloop.attention.key_length': 15, expected an even number from 2 to 512"},
      {"head_dim_huge", u32("tinyloop.attention.key_length", 514), kUnsupported,
       "key_length': 514, expected 2 to 512"},
      {"value_length", u32("tinyloop.attention.value_length", 32), kUnsupported,
       "key 'tinyloop.attention.value_length': 32, expected the head's width 16"},
      {"partial_rope", u32("tinyloop.rope.dimension_count", 8), kUnsupported,
       "key 'tinyloop.rope.dimension_count': 8, expected the head's width 16"},
      {"eps_zero", f32("tinyloop.attention.layer_norm_rms_epsilon", 0.0f), kBad,
       "layer_norm_rms_epsilon': 0, expected 1e-12 to 1"},
      {"eps_nan", f32("tinyloop.attention.layer_norm_rms_epsilon", NAN), kBad,
       "layer_norm_rms_epsilon': nan"},
      {"rope_base", f32("tinyloop.rope.freq_base", INFINITY), kBad, "rope.freq_base': inf"},
      {"block_count", u32("tinyloop.block_count", 5), kBad,
       "key 'tinyloop.block_count': 5, expected 4 (prelude 1 + shared 2 + coda 1)"},
      {"no_shared", u32("tinyloop.loop.shared_layers", 0), kBad, "shared_layers': 0"},
      {"max_iterations", u32("tinyloop.loop.max_iterations", 65), kUnsupported,
       "max_iterations': 65, expected 1 to 64"},
      {"default_iterations", u32("tinyloop.loop.default_iterations", 17), kBad,
       "default_iterations': 17, expected 1 to max_iterations 16"},
      {"injection", text("tinyloop.loop.injection", "gated"), kUnsupported,
       "loop.injection': 'gated', expected one of none, add, linear, diagonal"},
      {"initial_state", text("tinyloop.loop.initial_state", "hash"), kUnsupported,
       "'hash', expected one of prelude, zeros, normal"},
      {"no_std", text("tinyloop.loop.initial_state", "normal"), kBad,
       "loop.initial_state_std': is missing"},
      {"std_zero",
       both(text("tinyloop.loop.initial_state", "normal"),
            f32("tinyloop.loop.initial_state_std", 0.0f)),
       kBad, "loop.initial_state_std': 0, expected"},
      {"ffn_type", text("tinyloop.ffn_type", "gelu"), kUnsupported,
       "ffn_type': 'gelu', expected one of swiglu, relu2"},
      {"exit", text("tinyloop.loop.exit", "entropy"), kUnsupported, "loop.exit': 'entropy'"},
      {"embedding_scale", f32("tinyloop.embedding_scale", -1.0f), kBad, "embedding_scale': -1"},
      {"softcap", f32("tinyloop.logit_softcap", -5.0f), kBad, "logit_softcap': -5"},
      {"unknown_key", u32("tinyloop.attention.sinks", 4), kUnsupported,
       "key 'tinyloop.attention.sinks': has no meaning here"},
      {"rope_scaling", text("tinyloop.rope.scaling.type", "yarn"), kUnsupported,
       "key 'tinyloop.rope.scaling.type': 'yarn' is not computed here, expected none"},
      {"rope_scaling_factor", f32("tinyloop.rope.scaling.factor", 8.0f), kUnsupported,
       "rope.scaling.factor': '8'"},
      {"window", u32("tinyloop.attention.sliding_window", 4096), kUnsupported,
       "attention.sliding_window': '4096'"},
      {"experts", u32("tinyloop.expert_count", 8), kUnsupported, "expert_count': '8'"},
      {"split", u32("split.count", 3), kUnsupported, "key 'split.count': 3 files"},
      {"adapter", text("general.type", "adapter"), kUnsupported,
       "key 'general.type': 'adapter', expected 'model'"},
      {"type_of_type", u32("general.type", 1), kBad, "key 'general.type': type u32"},
      {"tokens_without_rows",
       [](GgufWriter& writer) {
         writer.strings("tokenizer.ggml.tokens", std::vector<std::string>(301, "a"));
       },
       kBad, "key 'tokenizer.ggml.tokens': 301 tokens, expected 1 to vocab_size 300"},
  };
}

std::vector<Broken> tensor_cases() {
  return {
      {"tensor_missing", no_tensor("blk.2.ffn_up.weight"), kBad,
       "tensor 'blk.2.ffn_up.weight': is missing"},
      {"embedding_missing", no_tensor("token_embd.weight"), kBad,
       "tensor 'token_embd.weight': is missing"},
      {"matrix_shape", dims("blk.1.ffn_up.weight", {64, 152}), kBad,
       "tensor 'blk.1.ffn_up.weight': shape [64, 152], expected [64, 160]"},
      {"matrix_transposed", dims("blk.1.ffn_down.weight", {64, 160}), kBad,
       "tensor 'blk.1.ffn_down.weight': shape [64, 160], expected [160, 64]"},
      {"matrix_three_dims", dims("blk.1.ffn_up.weight", {64, 80, 2}), kBad,
       "shape [64, 80, 2], expected [64, 160]"},
      {"norm_shape", vector("blk.0.attn_norm.weight", 32), kBad,
       "tensor 'blk.0.attn_norm.weight': shape [32], expected [64]"},
      {"norm_type", type("blk.0.attn_norm.weight", 1), kUnsupported,
       "tensor 'blk.0.attn_norm.weight': type F16 (1), expected F32"},
      {"matrix_type", type("blk.3.attn_v.weight", 12), kUnsupported,
       "tensor 'blk.3.attn_v.weight': type Q4_K (12), expected one of F32, F16"},
      {"matrix_type_unknown", type("blk.3.attn_v.weight", 999), kUnsupported, "type ? (999)"},
      {"vocab", u32("tinyloop.vocab_size", 301), kBad,
       "tensor 'token_embd.weight': shape [64, 300], expected [64, 301]"},
      {"bias", vector("blk.0.attn_q.bias", 64), kUnsupported,
       "tensor 'blk.0.attn_q.bias': has no meaning here"},
      {"rope_freqs", vector("rope_freqs.weight", 8), kUnsupported,
       "tensor 'rope_freqs.weight': has no meaning here"},
      {"layer_too_many", vector("blk.4.attn_norm.weight", 64), kUnsupported,
       "tensor 'blk.4.attn_norm.weight': has no meaning here"},
      {"gate_with_relu2", text("tinyloop.ffn_type", "relu2"), kUnsupported,
       "tensor 'blk.0.ffn_gate.weight': has no meaning here"},
      {"head_norm_shape", vector("blk.0.attn_q_norm.weight", 17), kBad,
       "tensor 'blk.0.attn_q_norm.weight': shape [17], expected [16] or [64]"},
      {"no_injection_tensor", text("tinyloop.loop.injection", "linear"), kBad,
       "tensor 'loop_inject.weight': is missing"},
      {"no_decay",
       both(text("tinyloop.loop.injection", "diagonal"),
            [](GgufWriter& writer) {
              writer.tensor("loop_inject.weight", {64, 64}, kernels::WeightType::f32,
                            std::vector<float>(64 * 64, 0.0f));
            }),
       kBad, "tensor 'loop_inject_decay.weight': is missing"},
      {"injection_not_asked_for", vector("loop_inject_decay.weight", 64), kUnsupported,
       "tensor 'loop_inject_decay.weight': has no meaning here"},
      {"no_exit_gate", text("tinyloop.loop.exit", "gate"), kBad,
       "tensor 'exit_gate.weight': is missing"},
      {"exit_bias_shape",
       both(text("tinyloop.loop.exit", "gate"),
            both(vector("exit_gate.weight", 64), vector("exit_gate.bias", 2))),
       kBad, "tensor 'exit_gate.bias': shape [2], expected [1]"},
      {"loop_norm_shape", vector("loop_norm.weight", 63), kBad,
       "tensor 'loop_norm.weight': shape [63], expected [64]"},
  };
}

class ModelSpecBroken : public ::testing::TestWithParam<Broken> {};

TEST_P(ModelSpecBroken, IsRefusedByName) {
  expect_refused(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Metadata, ModelSpecBroken, ::testing::ValuesIn(metadata_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Tensors, ModelSpecBroken, ::testing::ValuesIn(tensor_cases()), case_name);

}  // namespace
}  // namespace tinyloop::engine
