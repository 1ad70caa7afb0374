#include "tests/support/unroll.h"

#include <stdexcept>

#include "engine/model_spec.h"

namespace tinyloop::testing {

using namespace engine;

namespace {

void require_plain(const ModelSpec& spec) {
  const auto refuse = [](bool present, const char* what) {
    if (present) throw std::invalid_argument(std::string("write_unrolled: ") + what);
  };
  refuse(spec.injection != Injection::none, "injection");
  refuse(spec.initial_state != InitialState::prelude, "initial state");
  refuse(spec.ffn_type != kernels::FfnType::swiglu, "ffn type");
  refuse(spec.embedding_scale != 1.0f, "embedding scale");
  refuse(spec.logit_softcap != 0.0f, "logit softcap");
  refuse(spec.exit != ExitRule::none, "exit rule");
  refuse(bool(spec.tensors.loop_norm), "loop norm");
  refuse(!spec.tensors.output_norm, "no output norm");
  for (const LayerTensors& layer : spec.tensors.layers) {
    refuse(layer.attn_post_norm || layer.ffn_post_norm, "post norm");
    refuse(layer.q_norm || layer.k_norm, "q/k norm");
  }
}

void copy_tensor(GgufWriter& writer, const TensorRef& from, const std::string& name) {
  if (!from) return;
  std::vector<uint64_t> dims = {uint64_t(from.cols)};
  if (from.rows > 1) dims.push_back(uint64_t(from.rows));
  writer.tensor(name, std::move(dims), static_cast<uint32_t>(from.type),
                std::vector<std::byte>(from.data, from.data + from.bytes));
}

// blk.{from}.x becomes blk.{to}.x.
void copy_layer(GgufWriter& writer, const LayerTensors& layer, int32_t to) {
  for (const TensorRef* tensor : {&layer.attn_norm, &layer.q, &layer.k, &layer.v, &layer.o,
                                  &layer.ffn_norm, &layer.gate, &layer.up, &layer.down}) {
    const size_t part = tensor->name.find('.', sizeof "blk." - 1);
    copy_tensor(writer, *tensor, "blk." + std::to_string(to) + tensor->name.substr(part));
  }
}

// A metadata value with the lengths that GgufValue leaves out.
std::vector<std::byte> encoded(const GgufValue& value) {
  std::vector<std::byte> out;
  const auto append = [&out](std::span<const std::byte> bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
  };
  if (value.type == GgufType::array) append(std::as_bytes(std::span(&value.element, 1)));
  const uint64_t length = value.type == GgufType::array ? value.count : value.bytes.size();
  if (scalar_bytes(value.type) == 0) append(std::as_bytes(std::span(&length, 1)));
  append(value.bytes);
  return out;
}

void write_keys(GgufWriter& writer, const GgufFile& file, const ModelSpec& spec, int32_t layers) {
  const auto u32 = [&](const char* key, int32_t value) {
    writer.u32(std::string("llama.") + key, static_cast<uint32_t>(value));
  };
  writer.string("general.architecture", "llama");
  writer.string("general.name", spec.name + "-unrolled");
  u32("block_count", layers);
  u32("context_length", spec.context_length);
  u32("embedding_length", spec.d_model);
  u32("feed_forward_length", spec.ffn);
  u32("vocab_size", spec.vocab);
  u32("attention.head_count", spec.heads);
  u32("attention.head_count_kv", spec.kv_heads);
  u32("attention.key_length", spec.head_dim);
  u32("attention.value_length", spec.head_dim);
  u32("rope.dimension_count", spec.head_dim);
  writer.f32("llama.attention.layer_norm_rms_epsilon", spec.eps);
  writer.f32("llama.rope.freq_base", spec.rope_base);
  for (const GgufEntry& entry : file.entries()) {
    if (!entry.key.starts_with("tokenizer.")) continue;
    writer.raw(std::string(entry.key), static_cast<uint32_t>(entry.value.type),
               encoded(entry.value));
  }
}

}  // namespace

std::shared_ptr<const TempFile> write_unrolled(const std::string& looped_path, int32_t iterations) {
  const GgufFile file = GgufFile::open(looped_path).value();
  const ModelSpec spec = read_model_spec(file).value();
  require_plain(spec);
  const ModelTensors& tensors = spec.tensors;

  GgufWriter writer;
  write_keys(writer, file, spec, spec.schedule().slots(iterations));
  copy_tensor(writer, tensors.token_embd, "token_embd.weight");
  copy_tensor(writer, tensors.output_norm, "output_norm.weight");
  copy_tensor(writer, tensors.output, "output.weight");
  int32_t next = 0;
  const auto copy = [&](int32_t from) { copy_layer(writer, tensors.layers[size_t(from)], next++); };
  for (int32_t p = 0; p < spec.prelude; ++p) copy(p);
  for (int32_t i = 0; i < iterations; ++i) {
    for (int32_t l = 0; l < spec.shared; ++l) copy(spec.prelude + l);
  }
  for (int32_t c = 0; c < spec.coda; ++c) copy(spec.prelude + spec.shared + c);
  return writer.write_temp("unrolled");
}

}  // namespace tinyloop::testing
