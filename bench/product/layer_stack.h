// Layers of random weights on a device, and the ops of passes over them.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/attention_plan.h"
#include "kernels/backend.h"

namespace tinyloop::bench {

struct LayerShape {
  std::string_view name;
  int32_t d_model, heads, kv_heads, head_dim, ffn;

  int32_t q_width() const { return heads * head_dim; }
  int32_t kv_width() const { return kv_heads * head_dim; }
};

inline constexpr LayerShape kLayerShapes[] = {
    {"ouro14", 2048, 16, 16, 128, 5632},
    {"m409", 2048, 32, 8, 64, 6656},
    {"loop24", 1024, 16, 4, 64, 2816},
};

// As many layers as are asked for, each with matrices and K/V pages of its own, so that what a pass
// reads comes from memory, not from a cache.
class LayerStack {
 public:
  struct Options {
    LayerShape shape;
    kernels::WeightType type;
    int32_t layers;
    int32_t most_rows;
    int32_t context;  // positions that the last row attends to, its own included
    bool prompt;      // rows are the last ones of one sequence, else each of its own
  };
  LayerStack(kernels::Backend& backend, const Options& options);

  // Of the passes to come.
  void take_rows(int32_t rows);

  void qkv(int32_t layer);
  void attention(int32_t layer);
  void output(int32_t layer);
  void hidden(int32_t layer);
  void down(int32_t layer);

  const Options& options() const { return options_; }
  size_t matrix_bytes(int32_t outputs, int32_t cols) const;

 private:
  struct Weights {
    kernels::WeightMatrix q, k, v, o, gate, up, down;
  };

  std::byte* keep(size_t bytes);
  template <class T>
  T* keep(const std::vector<T>& values);
  kernels::WeightMatrix random_matrix(int32_t outputs, int32_t cols);
  kernels::RowView scratch(int32_t cols);
  void make_pages();
  kernels::RmsNormArgs norm() const;

  kernels::Backend& backend_;
  const Options options_;
  std::vector<kernels::DeviceBuffer> buffers_;
  std::vector<Weights> weights_;
  kernels::RowView main_, normed_, q_, attended_, hidden_;
  const float *norm_weight_ = nullptr, *cos_sin_ = nullptr;
  kernels::KvView cache_;
  size_t page_bytes_ = 0;
  int32_t sequence_pages_ = 0, rows_ = 0;
};

}  // namespace tinyloop::bench
