#include "engine/model_description.h"

#include <cstdio>

#include "engine/gguf_text.h"
#include "engine/model_figures.h"

namespace tinyloop::engine {

namespace {

// 12123264 -> "12,123,264"
std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string decimals(double value, int places) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", places, value);
  return text;
}

std::string plural(uint64_t count, const std::string& noun) {
  return grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

// Lines with their labels padded to one column.
class Page {
 public:
  void line(std::string_view label, const std::string& value) {
    constexpr size_t kColumn = 18;
    text_ += label;
    text_.append(label.size() < kColumn ? kColumn - label.size() : 1, ' ');
    text_ += value + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void describe_loop(Page& page, const ModelSpec& spec, const ModelFigures& figures) {
  page.line("layers", std::to_string(spec.prelude) + " prelude / " + std::to_string(spec.shared) +
                          " shared / " + std::to_string(spec.coda) + " coda");
  page.line("loops", std::to_string(spec.default_iterations) + " by default, at most " +
                         std::to_string(spec.max_iterations));
  page.line("layers run", std::to_string(figures.layers_run) + " per token at the default depth");
  std::string state = to_string(spec.initial_state);
  if (spec.initial_state == InitialState::normal) {
    state += ", standard deviation " + number_text(spec.initial_state_std);
  }
  page.line("injection", to_string(spec.injection));
  page.line("initial state", state);
}

void describe_size(Page& page, const GgufFile& file, const ModelFigures& figures) {
  page.line("parameters", grouped(figures.parameters) + " stored, " +
                              grouped(figures.parameters_as_run) + " as run at the default depth");
  for (const auto& [type, total] : totals_by_type(file)) {
    page.line("weights", std::string(tensor_type_name(type)) + ": " +
                             plural(total.tensors, "tensor") + ", " + grouped(total.bytes) +
                             " bytes");
  }
  page.line("bits per weight", decimals(figures.bits_per_weight, 2));
  page.line("K/V cache",
            grouped(figures.kv_bytes_per_token) + " bytes per token at the default depth (FP16)");
}

void describe_tokenizer(Page& page, const GgufFile& file) {
  const TokenizerFacts facts = tokenizer_facts(file);
  if (facts.kind.empty()) {
    page.line("tokenizer", "none");
    return;
  }
  page.line("tokenizer", facts.kind + " (pre-tokenizer " +
                             (facts.pre.empty() ? "not named" : facts.pre) + "), " +
                             plural(facts.tokens, "token") + ", " + plural(facts.merges, "merge"));
}

std::string option_text(const ModelSpec& spec) {
  std::string text;
  for (const std::string& option : option_list(spec)) text += (text.empty() ? "" : ", ") + option;
  return text.empty() ? "none" : text;
}

}  // namespace

std::string describe_model(const GgufFile& file, const ModelSpec& spec, bool with_tensors) {
  const ModelFigures figures = model_figures(spec);
  Page page;
  page.line("file", file.path() + " (" + grouped(file.size_bytes()) + " bytes, GGUF version " +
                        std::to_string(file.version()) + ")");
  page.line("name", spec.name.empty() ? "(none)" : printable(spec.name));
  page.line("architecture", spec.architecture);
  describe_loop(page, spec, figures);
  page.line("dimensions", "width " + grouped(uint64_t(spec.d_model)) + ", " +
                              plural(uint64_t(spec.heads), "head") + " and " +
                              plural(uint64_t(spec.kv_heads), "K/V head") + " of " +
                              std::to_string(spec.head_dim) + ", FFN " +
                              grouped(uint64_t(spec.ffn)) + " (" + to_string(spec.ffn_type) + ")");
  page.line("vocabulary", plural(uint64_t(spec.vocab), "token"));
  page.line("context", plural(uint64_t(spec.context_length), "position") + " trained, RoPE base " +
                           number_text(spec.rope_base));
  page.line("options", option_text(spec));
  describe_size(page, file, figures);
  describe_tokenizer(page, file);
  if (with_tensors) {
    for (const GgufTensor& tensor : file.tensors()) {
      page.line("tensor", printable(tensor.name) + "  " +
                              std::string(tensor_type_name(tensor.type)) + "  " +
                              shape_text(tensor.dims) + "  " + plural(tensor.bytes, "byte"));
    }
  }
  return page.take();
}

}  // namespace tinyloop::engine
