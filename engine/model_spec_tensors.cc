#include "engine/model_spec_tensors.h"

#include <string_view>
#include <unordered_set>

#include "engine/gguf_text.h"

namespace tinyloop::engine {

namespace {

// Hands out tensors by name and remembers which ones were asked for.
class TensorBook {
 public:
  explicit TensorBook(const GgufFile& file) : file_(file) {}

  bool contains(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  TensorRef matrix(const std::string& name, int32_t rows, int32_t cols) {
    return take(name, uint64_t(cols), uint64_t(rows));
  }
  TensorRef vector(const std::string& name, int32_t length) {
    TensorRef ref = take(name, uint64_t(length), 1);
    if (ref.type != kernels::WeightType::f32) {
      fail(errc::unsupported_model, name,
           "type " + tensor_type_text(uint32_t(ref.type)) + ", expected F32");
    }
    return ref;
  }
  TensorRef optional_matrix(const std::string& name, int32_t rows, int32_t cols) {
    return contains(name) ? matrix(name, rows, cols) : TensorRef{};
  }
  TensorRef optional_vector(const std::string& name, int32_t length) {
    return contains(name) ? vector(name, length) : TensorRef{};
  }
  // A norm over each head, or over all of them at once.
  TensorRef optional_head_norm(const std::string& name, int32_t heads, int32_t head_dim) {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr) return {};
    const int32_t full = heads * head_dim;
    if (tensor->elements != uint64_t(head_dim) && tensor->elements != uint64_t(full)) {
      fail(errc::bad_model_file, name,
           "shape " + shape_text(tensor->dims) + ", expected [" + std::to_string(head_dim) +
               "] or [" + std::to_string(full) + "]");
    }
    return vector(name, static_cast<int32_t>(tensor->elements));
  }

  void refuse_others() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!taken_.contains(tensor.name)) {
        fail(errc::unsupported_model, tensor.name, "has no meaning here");
      }
    }
  }

 private:
  [[noreturn]] void fail(errc code, std::string_view name, const std::string& what) const {
    throw base::Failure(file_.error(code, tensor_text(name) + ": " + what));
  }

  // Dimensions of 1 at the end do not matter.
  static bool has_shape(const GgufTensor& tensor, uint64_t cols, uint64_t rows) {
    const auto& dims = tensor.dims;
    return dims[0] == cols && (dims.size() > 1 ? dims[1] : 1) == rows &&
           tensor.elements == cols * rows;
  }

  TensorRef take(const std::string& name, uint64_t cols, uint64_t rows) {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr) fail(errc::bad_model_file, name, "is missing");
    if (!has_shape(*tensor, cols, rows)) {
      const std::string expected =
          rows == 1 ? "[" + std::to_string(cols) + "]" : shape_text(std::vector{cols, rows});
      fail(errc::bad_model_file, name,
           "shape " + shape_text(tensor->dims) + ", expected " + expected);
    }
    if (!kernels::weight_format(tensor->type)) {
      fail(errc::unsupported_model, name,
           "type " + tensor_type_text(tensor->type) +
               ", expected one of F32, F16, BF16, Q8_0, Q4_0, Q4_1");
    }
    taken_.insert(tensor->name);
    return {name,
            static_cast<kernels::WeightType>(tensor->type),
            static_cast<int32_t>(rows),
            static_cast<int32_t>(cols),
            tensor->data,
            tensor->bytes};
  }

  const GgufFile& file_;
  std::unordered_set<std::string_view> taken_;
};

LayerTensors resolve_layer(TensorBook& book, const ModelSpec& spec, int32_t index) {
  const std::string prefix = "blk." + std::to_string(index) + ".";
  const auto name = [&](const char* part) { return prefix + part + ".weight"; };
  const int32_t d = spec.d_model, ffn = spec.ffn;
  const int32_t q_width = spec.heads * spec.head_dim, kv_width = spec.kv_heads * spec.head_dim;

  LayerTensors layer;
  layer.attn_norm = book.vector(name("attn_norm"), d);
  layer.q = book.matrix(name("attn_q"), q_width, d);
  layer.k = book.matrix(name("attn_k"), kv_width, d);
  layer.v = book.matrix(name("attn_v"), kv_width, d);
  layer.o = book.matrix(name("attn_output"), d, q_width);
  layer.ffn_norm = book.vector(name("ffn_norm"), d);
  if (spec.ffn_type == kernels::FfnType::swiglu) layer.gate = book.matrix(name("ffn_gate"), ffn, d);
  layer.up = book.matrix(name("ffn_up"), ffn, d);
  layer.down = book.matrix(name("ffn_down"), d, ffn);
  if (spec.architecture == "llama") return layer;

  layer.attn_post_norm = book.optional_vector(name("attn_post_norm"), d);
  layer.ffn_post_norm = book.optional_vector(name("ffn_post_norm"), d);
  layer.q_norm = book.optional_head_norm(name("attn_q_norm"), spec.heads, spec.head_dim);
  layer.k_norm = book.optional_head_norm(name("attn_k_norm"), spec.kv_heads, spec.head_dim);
  return layer;
}

void resolve_loop_tensors(TensorBook& book, const ModelSpec& spec, ModelTensors& tensors) {
  const int32_t d = spec.d_model;
  tensors.loop_norm = book.optional_vector("loop_norm.weight", d);
  if (spec.injection == Injection::linear) {
    tensors.inject = book.matrix("loop_inject.weight", d, 2 * d);
  } else if (spec.injection == Injection::diagonal) {
    tensors.inject = book.matrix("loop_inject.weight", d, d);
    tensors.inject_decay = book.vector("loop_inject_decay.weight", d);
  }
  if (spec.exit == ExitRule::gate) {
    tensors.exit_gate = book.matrix("exit_gate.weight", 1, d);
    tensors.exit_gate_bias = book.vector("exit_gate.bias", 1);
  }
}

}  // namespace

ModelTensors resolve_tensors(const GgufFile& file, const ModelSpec& spec) {
  TensorBook book(file);
  ModelTensors tensors;
  tensors.token_embd = book.matrix("token_embd.weight", spec.vocab, spec.d_model);
  tensors.output = book.optional_matrix("output.weight", spec.vocab, spec.d_model);
  if (spec.architecture == "llama") {
    tensors.output_norm = book.vector("output_norm.weight", spec.d_model);
  } else {
    tensors.output_norm = book.optional_vector("output_norm.weight", spec.d_model);
    resolve_loop_tensors(book, spec, tensors);
  }
  for (int32_t i = 0; i < spec.block_count(); ++i) {
    tensors.layers.push_back(resolve_layer(book, spec, i));
  }
  book.refuse_others();
  return tensors;
}

}  // namespace tinyloop::engine
