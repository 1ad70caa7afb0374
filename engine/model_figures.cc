#include "engine/model_figures.h"

#include "engine/gguf_text.h"

namespace tinyloop::engine {

namespace {

template <class Visit>
void visit_layer(const LayerTensors& layer, Visit visit) {
  for (const TensorRef* tensor :
       {&layer.attn_norm, &layer.q, &layer.k, &layer.v, &layer.o, &layer.ffn_norm, &layer.gate,
        &layer.up, &layer.down, &layer.attn_post_norm, &layer.ffn_post_norm, &layer.q_norm,
        &layer.k_norm}) {
    visit(*tensor);
  }
}

uint64_t array_count(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  return value && value->type == GgufType::array ? value->count : 0;
}

std::string text_of(const GgufFile& file, std::string_view key, const char* otherwise) {
  const auto text = file.string(key);
  return text ? printable(*text) : otherwise;
}

}  // namespace

ModelFigures model_figures(const ModelSpec& spec) {
  ModelFigures figures;
  const auto loops = static_cast<uint64_t>(spec.default_iterations);
  const auto count = [&figures](const TensorRef& tensor, uint64_t times) {
    figures.parameters += tensor.elements();
    figures.parameters_as_run += tensor.elements() * times;
    figures.tensor_bytes += tensor.bytes;
  };
  const ModelTensors& tensors = spec.tensors;
  for (const TensorRef* once : {&tensors.token_embd, &tensors.output, &tensors.output_norm,
                                &tensors.exit_gate, &tensors.exit_gate_bias}) {
    count(*once, 1);
  }
  for (const TensorRef* looped : {&tensors.loop_norm, &tensors.inject, &tensors.inject_decay}) {
    count(*looped, loops);
  }
  for (int32_t i = 0; i < spec.block_count(); ++i) {
    const bool shared = i >= spec.prelude && i < spec.prelude + spec.shared;
    visit_layer(tensors.layers[size_t(i)],
                [&](const TensorRef& tensor) { count(tensor, shared ? loops : 1); });
  }
  figures.bits_per_weight = double(figures.tensor_bytes) * 8.0 / double(figures.parameters);
  constexpr uint64_t kHalfBytes = 2;
  figures.layers_run = spec.schedule().slots(spec.default_iterations);
  figures.kv_bytes_per_token = uint64_t(figures.layers_run) * 2 * uint64_t(spec.kv_heads) *
                               uint64_t(spec.head_dim) * kHalfBytes;
  return figures;
}

std::map<uint32_t, TypeTotal> totals_by_type(const GgufFile& file) {
  std::map<uint32_t, TypeTotal> totals;
  for (const GgufTensor& tensor : file.tensors()) {
    TypeTotal& total = totals[tensor.type];
    ++total.tensors;
    total.bytes += tensor.bytes;
  }
  return totals;
}

TokenizerFacts tokenizer_facts(const GgufFile& file) {
  if (!file.contains("tokenizer.ggml.model")) return {};
  return {text_of(file, "tokenizer.ggml.model", "?"), text_of(file, "tokenizer.ggml.pre", ""),
          array_count(file, "tokenizer.ggml.tokens"), array_count(file, "tokenizer.ggml.merges")};
}

std::vector<std::string> option_list(const ModelSpec& spec) {
  const ModelTensors& tensors = spec.tensors;
  const LayerTensors& layer = tensors.layers.front();
  std::vector<std::string> options;
  const auto add = [&](bool present, std::string text) {
    if (present) options.push_back(std::move(text));
  };
  add(spec.tied, "tied output");
  add(!tensors.output_norm, "no output norm");
  add(bool(tensors.loop_norm), "loop norm");
  add(bool(layer.attn_post_norm), "attention post norm");
  add(bool(layer.ffn_post_norm), "FFN post norm");
  add(layer.q_norm || layer.k_norm, "q/k norm");
  add(spec.embedding_scale != 1.0f, "embedding scale " + number_text(spec.embedding_scale));
  add(spec.logit_softcap != 0.0f, "logit softcap " + number_text(spec.logit_softcap));
  add(spec.exit == ExitRule::gate, "exit gate (kept, not used)");
  return options;
}

}  // namespace tinyloop::engine
