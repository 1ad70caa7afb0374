// Good model files: the demo model, every option of the format, and plain `llama` files.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/model_description.h"
#include "engine/model_spec.h"
#include "tests/support/random_model.h"
#include "tests/support/unroll.h"

namespace tinyloop::engine {
namespace {

using tinyloop::testing::GgufWriter;
using tinyloop::testing::ModelShape;
using tinyloop::testing::QkNorm;
using tinyloop::testing::RandomModel;

const char kDemoPath[] = TINYLOOP_SOURCE_DIR "/models/tinyloop-tales-16m-q4_1.gguf";

struct Opened {
  GgufFile file;
  ModelSpec spec;
};

Opened open_model(const std::string& path) {
  GgufFile file = GgufFile::open(path).value();
  ModelSpec spec = read_model_spec(file).value();
  return {std::move(file), std::move(spec)};
}

Opened open_random(const ModelShape& shape) {
  return open_model(tinyloop::testing::write_random_model(shape).path());
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ModelSpec, ReadsTheDemoModel) {
  const auto [file, spec] = open_model(kDemoPath);
  EXPECT_EQ(spec.architecture, "tinyloop");
  EXPECT_EQ(spec.name, "tinyloop-tales-16m");
  EXPECT_EQ(spec.d_model, 512);
  EXPECT_EQ(spec.ffn, 1408);
  EXPECT_EQ(spec.vocab, 8192);
  EXPECT_EQ(spec.context_length, 1024);
  EXPECT_EQ(spec.heads, 8);
  EXPECT_EQ(spec.kv_heads, 4);
  EXPECT_EQ(spec.head_dim, 64);
  EXPECT_FLOAT_EQ(spec.eps, 1e-5f);
  EXPECT_EQ(spec.rope_base, 10000.0f);
  EXPECT_EQ(spec.prelude, 1);
  EXPECT_EQ(spec.shared, 2);
  EXPECT_EQ(spec.coda, 1);
  EXPECT_EQ(spec.default_iterations, 4);
  EXPECT_EQ(spec.max_iterations, 16);
  EXPECT_EQ(spec.injection, Injection::none);
  EXPECT_EQ(spec.initial_state, InitialState::prelude);
  EXPECT_EQ(spec.ffn_type, kernels::FfnType::swiglu);
  EXPECT_EQ(spec.exit, ExitRule::none);
  EXPECT_EQ(spec.embedding_scale, 1.0f);
  EXPECT_EQ(spec.logit_softcap, 0.0f);
  EXPECT_TRUE(spec.tied);
  EXPECT_TRUE(spec.tensors.output_norm);
  EXPECT_FALSE(spec.tensors.loop_norm);
  EXPECT_EQ(spec.tensors.token_embd.type, kernels::WeightType::q8_0);
  ASSERT_EQ(spec.tensors.layers.size(), 4u);
  const LayerTensors& layer = spec.tensors.layers[2];
  EXPECT_EQ(layer.k.name, "blk.2.attn_k.weight");
  EXPECT_EQ(layer.k.type, kernels::WeightType::q4_1);
  EXPECT_EQ(layer.k.rows, 256);
  EXPECT_EQ(layer.k.cols, 512);
  EXPECT_EQ(layer.k.bytes, size_t{256} * 512 / 32 * 20);
  EXPECT_FALSE(layer.q_norm);
}

TEST(ModelSpec, DescribesTheDemoModel) {
  const auto [file, spec] = open_model(kDemoPath);
  const std::string text = describe_model(file, spec);
  for (const char* part :
       {"12,123,264 bytes, GGUF version 3", "tinyloop-tales-16m", "1 prelude / 2 shared / 1 coda",
        "4 by default, at most 16", "10 per token", "15,995,392 stored", "33,696,256 as run",
        "8 heads and 4 K/V heads of 64", "Q4_1: 28 tensors", "Q8_0: 1 tensor, 4,456,448 bytes",
        "10,240 bytes per token", "gpt2 (pre-tokenizer gpt-2), 8,192 tokens, 7,935 merges",
        "tied output"}) {
    EXPECT_TRUE(contains(text, part)) << part << " in\n" << text;
  }
  EXPECT_FALSE(contains(text, "blk.0.attn_q.weight"));
  EXPECT_TRUE(contains(describe_model(file, spec, true),
                       "blk.0.ffn_gate.weight  Q4_1  [512, 1408]  450,560 bytes"));

  const auto json = model_description_json(file, spec, true);
  EXPECT_EQ(json["parameters"], 15995392);
  EXPECT_EQ(json["layers_run"], 10);
  EXPECT_EQ(json["kv_bytes_per_token"], 10240);
  EXPECT_EQ(json["tensor_types"]["Q4_1"]["tensors"], 28);
  EXPECT_EQ(json["tokenizer"]["tokens"], 8192);
  EXPECT_EQ(json["tensors"].size(), 38u);
  EXPECT_GT(json["bits_per_weight"], 5.0);
  EXPECT_LT(json["bits_per_weight"], 7.0);
}

TEST(ModelSpec, ReadsEveryOption) {
  ModelShape shape;
  shape.injection = "diagonal";
  shape.initial_state = "normal";
  shape.initial_state_std = 0.25f;
  shape.ffn_type = "relu2";
  shape.exit = "gate";
  shape.embedding_scale = 8.0f;
  shape.logit_softcap = 30.0f;
  shape.loop_norm = true;
  shape.output_norm = false;
  shape.post_norms = true;
  shape.qk_norm = QkNorm::per_head;
  shape.tied = false;
  shape.type_of["loop_inject.weight"] = kernels::WeightType::bf16;
  const auto [file, spec] = open_random(shape);
  EXPECT_EQ(spec.injection, Injection::diagonal);
  EXPECT_EQ(spec.initial_state, InitialState::normal);
  EXPECT_EQ(spec.initial_state_std, 0.25f);
  EXPECT_EQ(spec.ffn_type, kernels::FfnType::relu2);
  EXPECT_EQ(spec.exit, ExitRule::gate);
  EXPECT_EQ(spec.embedding_scale, 8.0f);
  EXPECT_EQ(spec.logit_softcap, 30.0f);
  EXPECT_FALSE(spec.tied);
  EXPECT_TRUE(spec.tensors.loop_norm);
  EXPECT_FALSE(spec.tensors.output_norm);
  EXPECT_EQ(spec.tensors.inject.rows, 64);
  EXPECT_EQ(spec.tensors.inject.cols, 64);
  EXPECT_EQ(spec.tensors.inject.type, kernels::WeightType::bf16);
  EXPECT_EQ(spec.tensors.inject_decay.cols, 64);
  EXPECT_EQ(spec.tensors.exit_gate.cols, 64);
  EXPECT_EQ(spec.tensors.exit_gate_bias.cols, 1);
  for (const LayerTensors& layer : spec.tensors.layers) {
    EXPECT_FALSE(layer.gate);
    EXPECT_TRUE(layer.attn_post_norm);
    EXPECT_TRUE(layer.ffn_post_norm);
    EXPECT_EQ(layer.q_norm.cols, 16);
    EXPECT_EQ(layer.k_norm.cols, 16);
  }
  const std::string text = describe_model(file, spec);
  for (const char* part : {"loop norm", "no output norm", "q/k norm", "embedding scale 8",
                           "logit softcap 30", "exit gate", "normal, standard deviation 0.25"}) {
    EXPECT_TRUE(contains(text, part)) << part << " in\n" << text;
  }
}

TEST(ModelSpec, ReadsLinearInjectionAndFullWidthNorms) {
  ModelShape shape;
  shape.injection = "linear";
  shape.initial_state = "zeros";
  shape.qk_norm = QkNorm::full_width;
  const auto [file, spec] = open_random(shape);
  EXPECT_EQ(spec.injection, Injection::linear);
  EXPECT_EQ(spec.initial_state, InitialState::zeros);
  EXPECT_EQ(spec.tensors.inject.rows, 64);
  EXPECT_EQ(spec.tensors.inject.cols, 128);
  EXPECT_EQ(spec.tensors.layers[0].q_norm.cols, 64);
  EXPECT_EQ(spec.tensors.layers[0].k_norm.cols, 32);
}

TEST(ModelSpec, OptionsHaveDefaults) {
  GgufWriter writer = tinyloop::testing::random_model_writer({});
  for (const char* key : {"tinyloop.loop.injection", "tinyloop.loop.initial_state",
                          "tinyloop.loop.exit", "tinyloop.ffn_type", "general.name"}) {
    writer.erase(key);
  }
  const GgufFile file = GgufFile::from_bytes(writer.bytes(), "memory").value();
  const ModelSpec spec = read_model_spec(file).value();
  EXPECT_EQ(spec.injection, Injection::none);
  EXPECT_EQ(spec.initial_state, InitialState::prelude);
  EXPECT_EQ(spec.exit, ExitRule::none);
  EXPECT_EQ(spec.ffn_type, kernels::FfnType::swiglu);
  EXPECT_EQ(spec.name, "");
}

TEST(ModelSpec, NeutralKeysAndForeignPrefixesPass) {
  GgufWriter writer = tinyloop::testing::random_model_writer({});
  writer.string("tinyloop.rope.scaling.type", "none");
  writer.f32("tinyloop.rope.scale_linear", 1.0f);
  writer.boolean("tinyloop.attention.causal", true);
  writer.u32("tinyloop.expert_count", 0);
  writer.u32("tinyloop.attention.value_length", 16);
  writer.u32("tinyloop.rope.dimension_count", 16);
  writer.string("general.license", "mit");
  writer.u32("quantize.imatrix.entries_count", 3);
  writer.u32("split.count", 1);
  const GgufFile file = GgufFile::from_bytes(writer.bytes(), "memory").value();
  EXPECT_TRUE(read_model_spec(file).has_value());
}

TEST(ModelSpec, UnrolledModelIsTheSameTensorsAsALlama) {
  const RandomModel looped = tinyloop::testing::write_random_model({});
  const auto [looped_file, looped_spec] = open_model(looped.path());
  const auto unrolled = tinyloop::testing::write_unrolled(looped.path(), 3);
  const auto [file, spec] = open_model(unrolled->path());
  EXPECT_EQ(spec.architecture, "llama");
  EXPECT_EQ(spec.prelude, 0);
  EXPECT_EQ(spec.shared, 1 + 3 * 2 + 1);
  EXPECT_EQ(spec.coda, 0);
  EXPECT_EQ(spec.default_iterations, 1);
  EXPECT_EQ(spec.max_iterations, 64);
  EXPECT_EQ(file.strings("tokenizer.ggml.tokens").value(),
            looped_file.strings("tokenizer.ggml.tokens").value());
  const int32_t source[] = {0, 1, 2, 1, 2, 1, 2, 3};
  for (size_t i = 0; i < std::size(source); ++i) {
    const TensorRef& from = looped_spec.tensors.layers[size_t(source[i])].down;
    const TensorRef& to = spec.tensors.layers[i].down;
    ASSERT_EQ(to.bytes, from.bytes);
    EXPECT_EQ(std::memcmp(to.data, from.data, to.bytes), 0) << "layer " << i;
  }
}

TEST(ModelSpec, UnrollRefusesWhatALlamaCannotSay) {
  ModelShape shape;
  shape.loop_norm = true;
  const RandomModel model = tinyloop::testing::write_random_model(shape);
  EXPECT_THROW(tinyloop::testing::write_unrolled(model.path(), 2), std::invalid_argument);
}

// A `llama` file with the fewest keys: the rest follows from them.
TEST(ModelSpec, LlamaFilesNeedFewKeys) {
  const RandomModel looped = tinyloop::testing::write_random_model({});
  const auto unrolled = tinyloop::testing::write_unrolled(looped.path(), 1);
  const auto [full, full_spec] = open_model(unrolled->path());
  GgufWriter writer;
  writer.string("general.architecture", "llama");
  for (const char* key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.head_count_kv"}) {
    const std::string name = std::string("llama.") + key;
    writer.u32(name, full.u32(name).value());
  }
  writer.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  for (const GgufTensor& tensor : full.tensors()) {
    writer.tensor(std::string(tensor.name), tensor.dims, tensor.type,
                  std::vector<std::byte>(tensor.data, tensor.data + tensor.bytes));
  }
  const GgufFile file = GgufFile::from_bytes(writer.bytes(), "memory").value();
  const ModelSpec spec = read_model_spec(file).value();
  EXPECT_EQ(spec.vocab, 300);
  EXPECT_EQ(spec.head_dim, 16);
  EXPECT_EQ(spec.rope_base, 10000.0f);
  EXPECT_EQ(spec.name, "");
  EXPECT_TRUE(contains(describe_model(file, spec), "tokenizer         none"));

  // Keys that only `tinyloop` files have mean nothing in a `llama` file.
  writer.f32("llama.logit_softcap", 30.0f);
  const GgufFile strange = GgufFile::from_bytes(writer.bytes(), "memory").value();
  const auto refused = read_model_spec(strange);
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().code, errc::unsupported_model);
  EXPECT_TRUE(contains(refused.error().detail, "key 'llama.logit_softcap'"));
}

TEST(RandomModel, ReferenceIsWhatTheFileHolds) {
  const RandomModel model = tinyloop::testing::write_random_model({});
  const auto [file, spec] = open_model(model.path());
  for (const GgufTensor& tensor : file.tensors()) {
    const auto& reference = model.at(std::string(tensor.name));
    ASSERT_EQ(reference.values.size(), tensor.elements);
    const kernels::WeightMatrix matrix{kernels::WeightType(tensor.type), reference.rows,
                                       reference.cols, tensor.data};
    std::vector<float> row(size_t(reference.cols));
    kernels::dequantise_row(matrix, reference.rows - 1, row.data());
    EXPECT_EQ(row.back(), reference.values.back()) << tensor.name;
  }
}

TEST(RandomModel, SameShapeSameFile) {
  ModelShape other;
  other.seed = 2;
  EXPECT_EQ(tinyloop::testing::random_model_writer({}).bytes(),
            tinyloop::testing::random_model_writer({}).bytes());
  EXPECT_NE(tinyloop::testing::random_model_writer({}).bytes(),
            tinyloop::testing::random_model_writer(other).bytes());
}

}  // namespace
}  // namespace tinyloop::engine
