// Small random looped models, with every option of the file format.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/weight.h"
#include "tests/support/gguf_writer.h"

namespace tinyloop::testing {

enum class QkNorm : uint8_t { none, per_head, full_width };

struct ModelShape {
  int32_t d_model = 64;
  int32_t heads = 4;
  int32_t kv_heads = 2;
  int32_t head_dim = 16;
  int32_t ffn = 160;
  int32_t vocab = 300;
  int32_t context_length = 256;
  float eps = 1e-5f;
  float rope_base = 10000.0f;

  int32_t prelude = 1;
  int32_t shared = 2;
  int32_t coda = 1;
  int32_t default_iterations = 4;
  int32_t max_iterations = 16;

  // Spelled as in the file.
  std::string injection = "none";
  std::string initial_state = "prelude";
  float initial_state_std = 0.5f;  // written with "normal" alone
  std::string ffn_type = "swiglu";
  std::string exit = "none";
  float embedding_scale = 1.0f;  // 1: no key
  float logit_softcap = 0.0f;    // 0: no key

  bool loop_norm = false;
  bool output_norm = true;
  bool post_norms = false;
  QkNorm qk_norm = QkNorm::none;
  bool tied = true;

  kernels::WeightType matrix_type = kernels::WeightType::q4_1;
  kernels::WeightType embedding_type = kernels::WeightType::q8_0;  // and of the output head
  std::map<std::string, kernels::WeightType> type_of{};  // by tensor name, before the two above

  bool tokenizer = true;  // tests/support/tiny_tokenizer.h; off: no tokenizer keys
  uint32_t version = 3;
  uint64_t seed = 1;
};

// Wide enough for several tiles of k in a group of a GPU's product, with heads of the usual size.
ModelShape tiled_shape();

// A tensor as a reference reads it: W[rows, cols] row-major, decoded from the file's format.
struct ReferenceTensor {
  int32_t rows = 0;  // 1 for a vector
  int32_t cols = 0;
  std::vector<float> values;
};

struct RandomModel {
  ModelShape shape;
  std::shared_ptr<const TempFile> file;            // removed with the last copy of this model
  std::map<std::string, ReferenceTensor> tensors;  // by name in the file

  const std::string& path() const { return file->path(); }
  const ReferenceTensor& at(const std::string& name) const { return tensors.at(name); }
  bool has(const std::string& name) const { return tensors.contains(name); }
};

// The file's content, to be changed before it is written.
GgufWriter random_model_writer(const ModelShape& shape);

// The same layers as a `llama` file without a loop. For shapes that `llama` files can say: no
// injection, swiglu, an output norm, and no other option of the loop.
GgufWriter llama_model_writer(const ModelShape& shape);

// The same shape gives the same file, byte for byte.
RandomModel write_random_model(const ModelShape& shape = {});

}  // namespace tinyloop::testing
