// What a model file asks to be computed: dimensions, the loop, options, and where each tensor lies.
// docs/model-format.md gives the keys, the tensors and the equations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/gguf_reader.h"
#include "engine/loop_schedule.h"
#include "kernels/ffn_activation.h"
#include "kernels/weight.h"

namespace tinyloop::engine {

// How the prelude's output e joins the state s before each iteration.
enum class Injection : uint8_t {
  none,      // s
  add,       // s + e
  linear,    // W [s; e]
  diagonal,  // a ⊙ s + B e
};

// The state before the first iteration.
enum class InitialState : uint8_t {
  prelude,  // e
  zeros,
  normal,  // kernels/initial_state.h, with ModelSpec::initial_state_std
};

// A rule the file offers for ending the loop early; off unless a request asks.
enum class ExitRule : uint8_t { none, gate };

const char* to_string(Injection injection) noexcept;
const char* to_string(InitialState state) noexcept;
const char* to_string(ExitRule rule) noexcept;
const char* to_string(kernels::FfnType type) noexcept;

// One tensor of the file. A vector of n elements has rows = 1, cols = n. `data` points into the
// GgufFile and is aligned to no more than the file's alignment; it must not be used after the file
// is closed. An absent optional tensor converts to false.
struct TensorRef {
  std::string name;
  kernels::WeightType type = kernels::WeightType::f32;
  int32_t rows = 0;
  int32_t cols = 0;
  const std::byte* data = nullptr;
  size_t bytes = 0;

  explicit operator bool() const { return data != nullptr; }
  size_t elements() const { return size_t(rows) * size_t(cols); }
};

// `blk.{i}.…`. Vectors are F32, matrices any of kernels::WeightType.
struct LayerTensors {
  TensorRef attn_norm;       // [d]
  TensorRef q;               // [heads · head_dim, d]
  TensorRef k, v;            // [kv_heads · head_dim, d]
  TensorRef o;               // [d, heads · head_dim]
  TensorRef ffn_norm;        // [d]
  TensorRef gate;            // [ffn, d]; absent with relu2
  TensorRef up;              // [ffn, d]
  TensorRef down;            // [d, ffn]
  TensorRef attn_post_norm;  // [d], optional
  TensorRef ffn_post_norm;   // [d], optional
  TensorRef q_norm;          // [head_dim], or [heads · head_dim]; optional
  TensorRef k_norm;          // [head_dim], or [kv_heads · head_dim]; optional
};

struct ModelTensors {
  TensorRef token_embd;              // [vocab, d]
  TensorRef output;                  // [vocab, d]; absent: tied to token_embd
  TensorRef output_norm;             // [d], optional (required in `llama` files)
  TensorRef loop_norm;               // [d], optional
  TensorRef inject;                  // linear: W [d, 2d]; diagonal: B [d, d]
  TensorRef inject_decay;            // diagonal: a [d], F32
  TensorRef exit_gate;               // [1, d] as any type, with ExitRule::gate
  TensorRef exit_gate_bias;          // [1], with ExitRule::gate
  std::vector<LayerTensors> layers;  // prelude, then shared, then coda
};

// Every value has been checked: dimensions are positive and bounded, so that row widths
// (heads · head_dim, 2 · d_model) and slot counts fit int32_t; floats are finite.
struct ModelSpec {
  std::string architecture;  // "tinyloop" or "llama"
  std::string name;          // general.name; may be empty
  int32_t d_model = 0;
  int32_t ffn = 0;
  int32_t vocab = 0;
  int32_t context_length = 0;  // positions the model was trained for
  int32_t heads = 0;
  int32_t kv_heads = 0;  // divides heads
  int32_t head_dim = 0;  // even
  float eps = 0.0f;
  float rope_base = 0.0f;

  int32_t prelude = 0;
  int32_t shared = 0;  // >= 1
  int32_t coda = 0;
  int32_t default_iterations = 1;
  int32_t max_iterations = 1;  // 64 in `llama` files

  Injection injection = Injection::none;
  InitialState initial_state = InitialState::prelude;
  float initial_state_std = 0.0f;  // > 0 with InitialState::normal, else 0
  float embedding_scale = 1.0f;
  float logit_softcap = 0.0f;  // 0: off
  kernels::FfnType ffn_type = kernels::FfnType::swiglu;
  ExitRule exit = ExitRule::none;

  bool tied = true;  // the output head is token_embd

  ModelTensors tensors;

  int32_t block_count() const { return prelude + shared + coda; }
  LoopSchedule schedule() const { return {prelude, shared, coda}; }
};

// Architectures `tinyloop` and `llama` (a loop over all layers with one iteration by default).
// Errors, each naming the file, the key or tensor, the value and the bound:
//   bad_model_file     a key or tensor is missing, contradicts another, or is out of range
//   unsupported_model  the file asks for something that is not computed here: another architecture,
//                      a key or tensor without a meaning here, another tensor type, too large a
//                      value
base::Result<ModelSpec> read_model_spec(const GgufFile& file);

}  // namespace tinyloop::engine
