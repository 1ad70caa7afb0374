#include "tests/support/random_model.h"

#include <cmath>

#include "base/philox.h"
#include "tests/support/quantise.h"
#include "tests/support/tiny_tokenizer.h"

namespace tinyloop::testing {

ModelShape tiled_shape() {
  ModelShape shape;
  shape.d_model = 576;
  shape.heads = 9;
  shape.kv_heads = 3;
  shape.head_dim = 64;
  shape.ffn = 1536;
  shape.injection = "linear";
  return shape;
}

using kernels::WeightType;

namespace {

// Adds tensors with values drawn by Philox from (seed, tensor number, element number).
class TensorMaker {
 public:
  TensorMaker(const ModelShape& shape, GgufWriter& writer) : shape_(shape), writer_(writer) {}

  // Normal values of variance gain² / cols, so that an output has gain times its input's size.
  void matrix(const std::string& name, int32_t rows, int32_t cols, float gain, WeightType type) {
    const float std = gain / std::sqrt(static_cast<float>(cols));
    add(name, {uint64_t(cols), uint64_t(rows)}, type, normal(size_t(rows) * size_t(cols), 0, std));
  }
  void matrix(const std::string& name, int32_t rows, int32_t cols, float gain) {
    matrix(name, rows, cols, gain, shape_.matrix_type);
  }
  // Normal values around `mean`.
  void vector(const std::string& name, int32_t length, float mean, float std) {
    add(name, {uint64_t(length)}, WeightType::f32, normal(size_t(length), mean, std));
  }
  void norm(const std::string& name, int32_t length) { vector(name, length, 1.0f, 0.1f); }

 private:
  std::vector<float> normal(size_t count, float mean, float std) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; i += 2) {
      const auto pair = base::normal_pair(base::philox(shape_.seed, base::RandomDomain::test, i / 2,
                                                       static_cast<uint32_t>(next_tensor_)));
      values[i] = mean + std * pair[0];
      if (i + 1 < count) values[i + 1] = mean + std * pair[1];
    }
    ++next_tensor_;
    return values;
  }
  void add(const std::string& name, std::vector<uint64_t> dims, WeightType type,
           const std::vector<float>& values) {
    const auto chosen = shape_.type_of.find(name);
    writer_.tensor(name, std::move(dims), chosen == shape_.type_of.end() ? type : chosen->second,
                   values);
  }

  const ModelShape& shape_;
  GgufWriter& writer_;
  size_t next_tensor_ = 0;
};

void write_dimensions(const ModelShape& shape, GgufWriter& writer) {
  const auto u32 = [&](const char* key, int32_t value) {
    writer.u32(std::string("tinyloop.") + key, static_cast<uint32_t>(value));
  };
  u32("block_count", shape.prelude + shape.shared + shape.coda);
  u32("context_length", shape.context_length);
  u32("embedding_length", shape.d_model);
  u32("feed_forward_length", shape.ffn);
  u32("vocab_size", shape.vocab);
  u32("attention.head_count", shape.heads);
  u32("attention.head_count_kv", shape.kv_heads);
  u32("attention.key_length", shape.head_dim);
  writer.f32("tinyloop.attention.layer_norm_rms_epsilon", shape.eps);
  writer.f32("tinyloop.rope.freq_base", shape.rope_base);
  u32("loop.prelude_layers", shape.prelude);
  u32("loop.shared_layers", shape.shared);
  u32("loop.coda_layers", shape.coda);
  u32("loop.default_iterations", shape.default_iterations);
  u32("loop.max_iterations", shape.max_iterations);
}

void write_options(const ModelShape& shape, GgufWriter& writer) {
  writer.string("tinyloop.loop.injection", shape.injection);
  writer.string("tinyloop.loop.initial_state", shape.initial_state);
  writer.string("tinyloop.loop.exit", shape.exit);
  writer.string("tinyloop.ffn_type", shape.ffn_type);
  if (shape.initial_state == "normal") {
    writer.f32("tinyloop.loop.initial_state_std", shape.initial_state_std);
  }
  if (shape.embedding_scale != 1.0f) writer.f32("tinyloop.embedding_scale", shape.embedding_scale);
  if (shape.logit_softcap != 0.0f) writer.f32("tinyloop.logit_softcap", shape.logit_softcap);
}

// Branch outputs are kept smaller than the residual, so that many iterations stay finite.
void make_layer(const ModelShape& shape, int32_t index, TensorMaker& make) {
  const auto name = [&](const char* part) {
    return "blk." + std::to_string(index) + "." + part + ".weight";
  };
  const int32_t d = shape.d_model;
  const int32_t q_width = shape.heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
  make.norm(name("attn_norm"), d);
  make.matrix(name("attn_q"), q_width, d, 1.5f);
  make.matrix(name("attn_k"), kv_width, d, 1.5f);
  make.matrix(name("attn_v"), kv_width, d, 1.0f);
  make.matrix(name("attn_output"), d, q_width, 0.5f);
  make.norm(name("ffn_norm"), d);
  if (shape.ffn_type == "swiglu") make.matrix(name("ffn_gate"), shape.ffn, d, 1.0f);
  make.matrix(name("ffn_up"), shape.ffn, d, 1.0f);
  make.matrix(name("ffn_down"), d, shape.ffn, 0.5f);
  if (shape.post_norms) {
    make.vector(name("attn_post_norm"), d, 0.3f, 0.05f);
    make.vector(name("ffn_post_norm"), d, 0.3f, 0.05f);
  }
  if (shape.qk_norm != QkNorm::none) {
    const bool full = shape.qk_norm == QkNorm::full_width;
    make.norm(name("attn_q_norm"), full ? q_width : shape.head_dim);
    make.norm(name("attn_k_norm"), full ? kv_width : shape.head_dim);
  }
}

void make_loop_tensors(const ModelShape& shape, TensorMaker& make) {
  const int32_t d = shape.d_model;
  if (shape.loop_norm) make.norm("loop_norm.weight", d);
  if (shape.injection == "linear") {
    make.matrix("loop_inject.weight", d, 2 * d, 1.0f);
  } else if (shape.injection == "diagonal") {
    make.matrix("loop_inject.weight", d, d, 0.7f);
    make.vector("loop_inject_decay.weight", d, 0.6f, 0.1f);
  }
  if (shape.exit == "gate") {
    make.vector("exit_gate.weight", d, 0.0f, 0.1f);
    make.vector("exit_gate.bias", 1, 0.0f, 0.1f);
  }
}

ReferenceTensor reference(const GgufWriter::Tensor& tensor) {
  const auto cols = static_cast<int32_t>(tensor.dims[0]);
  const auto rows = static_cast<int32_t>(tensor.dims.size() > 1 ? tensor.dims[1] : 1);
  return {rows, cols, dequantise(static_cast<WeightType>(tensor.type), tensor.data)};
}

}  // namespace

GgufWriter random_model_writer(const ModelShape& shape) {
  GgufWriter writer;
  writer.version = shape.version;
  writer.string("general.architecture", "tinyloop");
  writer.string("general.name", "random-" + std::to_string(shape.seed));
  write_dimensions(shape, writer);
  write_options(shape, writer);
  if (shape.tokenizer) write_tiny_tokenizer(shape.vocab, writer);

  TensorMaker make(shape, writer);
  make.matrix("token_embd.weight", shape.vocab, shape.d_model, 3.0f, shape.embedding_type);
  if (shape.output_norm) make.norm("output_norm.weight", shape.d_model);
  if (!shape.tied) {
    make.matrix("output.weight", shape.vocab, shape.d_model, 3.0f, shape.embedding_type);
  }
  make_loop_tensors(shape, make);
  for (int32_t i = 0; i < shape.prelude + shape.shared + shape.coda; ++i) {
    make_layer(shape, i, make);
  }
  return writer;
}

GgufWriter llama_model_writer(const ModelShape& shape) {
  const std::string from = "tinyloop.", to = "llama.";
  GgufWriter writer = random_model_writer(shape);
  writer.string("general.architecture", "llama");
  std::erase_if(writer.entries, [](const GgufWriter::Entry& entry) {
    return entry.key.starts_with("tinyloop.loop.") || entry.key == "tinyloop.ffn_type";
  });
  for (GgufWriter::Entry& entry : writer.entries) {
    if (entry.key.starts_with(from)) entry.key = to + entry.key.substr(from.size());
  }
  return writer;
}

RandomModel write_random_model(const ModelShape& shape) {
  const GgufWriter writer = random_model_writer(shape);
  RandomModel model;
  model.shape = shape;
  model.file = writer.write_temp("random");
  for (const GgufWriter::Tensor& tensor : writer.tensors) {
    model.tensors.emplace(tensor.name, reference(tensor));
  }
  return model;
}

}  // namespace tinyloop::testing
