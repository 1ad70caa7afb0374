// A model's tensors on the device, sorted by what they do.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/model_spec.h"
#include "kernels/backend.h"

namespace tinyloop::engine {

// A vector of f32; empty where the file leaves out an optional tensor.
struct WeightVector {
  const float* data = nullptr;
  int32_t size = 0;
  explicit operator bool() const { return data != nullptr; }
};

// Shapes: engine/model_spec.h, LayerTensors.
struct LayerWeights {
  WeightVector attn_norm, attn_post_norm, ffn_norm, ffn_post_norm, q_norm, k_norm;
  kernels::WeightMatrix q, k, v, o, gate, up, down;
};

class ModelWeights {
 public:
  // Copies every tensor of the file to the device, matrices in the layout that the backend asks
  // for. Errors: out_of_memory, naming the tensor; then nothing stays allocated.
  static base::Result<ModelWeights> upload(const ModelSpec& spec, kernels::Backend& backend);

  // Holds a buffer that a matrix points at as long as the weights. Throws std::bad_alloc.
  void keep(kernels::DeviceBuffer buffer) { buffers_.push_back(std::move(buffer)); }

  kernels::WeightMatrix embedding;  // [vocab, d]
  kernels::WeightMatrix head;       // [vocab, d]; the embedding where the file ties them
  WeightVector output_norm;         // [d], or empty
  WeightVector loop_norm;           // [d], or empty
  kernels::WeightMatrix inject;     // linear: [d, 2d]; diagonal: B [d, d]
  WeightVector inject_decay;        // diagonal: a [d]
  std::vector<LayerWeights> prelude, shared, coda;

 private:
  ModelWeights() = default;

  // Throw base::Failure(out_of_memory). An absent tensor gives an empty result.
  kernels::WeightMatrix matrix(const TensorRef& tensor, kernels::Backend& backend);
  WeightVector vector(const TensorRef& tensor, kernels::Backend& backend);
  LayerWeights layer(const LayerTensors& tensors, kernels::Backend& backend);
  template <class Fill>
  const std::byte* store(const TensorRef& tensor, size_t bytes, kernels::Backend& backend,
                         Fill fill);

  std::vector<kernels::DeviceBuffer> buffers_;
};

}  // namespace tinyloop::engine
