// Any bytes as a model file, read as BatchEngine::load and `inspect` read one: header, metadata,
// tensors, tokenizer. It ends with a model whose tensors lie inside the file, or with an error that
// says something.
#include <string>

#include "base/check.h"
#include "engine/model_description.h"
#include "engine/tokenizer_from_gguf.h"
#include "stress/fuzz/target.h"

namespace tinyloop::engine {
namespace {

void check_error(const base::Error& error) {
  TINYLOOP_CHECK(error.code == errc::bad_model_file || error.code == errc::unsupported_model);
  TINYLOOP_CHECK(error.detail.starts_with("fuzz: ") && error.detail.size() < 2000);
}

// Reads the first and the last byte: AddressSanitizer sees whether they belong to the file.
unsigned touch(const TensorRef& tensor) {
  if (!tensor) return 0;
  const auto format = kernels::weight_format(tensor.type);
  TINYLOOP_CHECK(tensor.rows > 0 && tensor.cols > 0);
  TINYLOOP_CHECK(tensor.bytes ==
                 tensor.elements() / size_t(format.block_values) * size_t(format.block_bytes));
  return std::to_integer<unsigned>(tensor.data[0]) +
         std::to_integer<unsigned>(tensor.data[tensor.bytes - 1]);
}

void check_tensors(const ModelSpec& spec) {
  TINYLOOP_CHECK(spec.tensors.layers.size() == size_t(spec.block_count()));
  const ModelTensors& all = spec.tensors;
  volatile unsigned sum = 0;
  for (const TensorRef* tensor :
       {&all.token_embd, &all.output, &all.output_norm, &all.loop_norm, &all.inject,
        &all.inject_decay, &all.exit_gate, &all.exit_gate_bias}) {
    sum = sum + touch(*tensor);
  }
  for (const LayerTensors& layer : all.layers) {
    for (const TensorRef* tensor :
         {&layer.attn_norm, &layer.q, &layer.k, &layer.v, &layer.o, &layer.ffn_norm, &layer.gate,
          &layer.up, &layer.down, &layer.attn_post_norm, &layer.ffn_post_norm, &layer.q_norm,
          &layer.k_norm}) {
      sum = sum + touch(*tensor);
    }
  }
}

void check_tokenizer(const Tokenizer& tokenizer) {
  const std::string text = "It's 1 na\xc3\xafve\xff\n  test, <|endoftext|>.";
  for (const bool specials : {false, true}) {
    for (const int32_t id : tokenizer.encode(text, {.add_bos = {}, .parse_special = specials})) {
      TINYLOOP_CHECK(id >= 0 && id < tokenizer.vocab_size());
      TINYLOOP_CHECK(tokenizer.token_bytes(id).size() <= tokenizer.max_token_bytes());
    }
  }
}

void read_model(std::span<const std::byte> bytes) {
  const auto file = GgufFile::from_bytes(bytes, "fuzz");
  if (!file) return check_error(file.error());
  const auto spec = read_model_spec(*file);
  if (spec) {
    check_tensors(*spec);
    TINYLOOP_CHECK(!describe_model(*file, *spec, true).empty());
  } else {
    check_error(spec.error());
  }
  const auto tokenizer = load_tokenizer(*file);
  if (!tokenizer) return check_error(tokenizer.error());
  if (*tokenizer) check_tokenizer(**tokenizer);
}

}  // namespace
}  // namespace tinyloop::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tinyloop::engine::read_model(std::as_bytes(std::span(data, size)));
  return 0;
}
