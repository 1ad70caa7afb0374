#include <nlohmann/json.hpp>

#include "engine/gguf_text.h"
#include "engine/model_description.h"
#include "engine/model_figures.h"

namespace tinyloop::engine {

namespace {

nlohmann::ordered_json tokenizer_json(const GgufFile& file) {
  const TokenizerFacts facts = tokenizer_facts(file);
  if (facts.kind.empty()) return nullptr;
  return {
      {"kind", facts.kind}, {"pre", facts.pre}, {"tokens", facts.tokens}, {"merges", facts.merges}};
}

nlohmann::ordered_json types_json(const GgufFile& file) {
  auto types = nlohmann::ordered_json::object();
  for (const auto& [type, total] : totals_by_type(file)) {
    types[std::string(tensor_type_name(type))] = {{"tensors", total.tensors},
                                                  {"bytes", total.bytes}};
  }
  return types;
}

nlohmann::ordered_json tensors_json(const GgufFile& file) {
  auto list = nlohmann::ordered_json::array();
  for (const GgufTensor& tensor : file.tensors()) {
    list.push_back({{"name", printable(tensor.name)},
                    {"type", tensor_type_name(tensor.type)},
                    {"shape", tensor.dims},
                    {"bytes", tensor.bytes}});
  }
  return list;
}

}  // namespace

nlohmann::ordered_json model_description_json(const GgufFile& file, const ModelSpec& spec,
                                              bool with_tensors) {
  const ModelFigures figures = model_figures(spec);
  nlohmann::ordered_json json = {{"file", file.path()},
                                 {"file_bytes", file.size_bytes()},
                                 {"gguf_version", file.version()},
                                 {"name", printable(spec.name)},
                                 {"architecture", spec.architecture},
                                 {"prelude_layers", spec.prelude},
                                 {"shared_layers", spec.shared},
                                 {"coda_layers", spec.coda},
                                 {"default_iterations", spec.default_iterations},
                                 {"max_iterations", spec.max_iterations},
                                 {"layers_run", figures.layers_run},
                                 {"injection", to_string(spec.injection)},
                                 {"initial_state", to_string(spec.initial_state)},
                                 {"initial_state_std", spec.initial_state_std},
                                 {"width", spec.d_model},
                                 {"heads", spec.heads},
                                 {"kv_heads", spec.kv_heads},
                                 {"head_dim", spec.head_dim},
                                 {"ffn", spec.ffn},
                                 {"ffn_type", to_string(spec.ffn_type)},
                                 {"vocabulary", spec.vocab},
                                 {"context_length", spec.context_length},
                                 {"rope_base", spec.rope_base},
                                 {"options", option_list(spec)},
                                 {"parameters", figures.parameters},
                                 {"parameters_as_run", figures.parameters_as_run},
                                 {"tensor_bytes", figures.tensor_bytes},
                                 {"tensor_types", types_json(file)},
                                 {"bits_per_weight", figures.bits_per_weight},
                                 {"kv_bytes_per_token", figures.kv_bytes_per_token},
                                 {"tokenizer", tokenizer_json(file)}};
  if (with_tensors) json["tensors"] = tensors_json(file);
  return json;
}

}  // namespace tinyloop::engine
