#include "engine/model_weights.h"

#include "kernels/weight_panels.h"

namespace tinyloop::engine {

using kernels::WeightLayout;
using kernels::WeightMatrix;

base::Result<ModelWeights> ModelWeights::upload(const ModelSpec& spec, kernels::Backend& backend) {
  const ModelTensors& tensors = spec.tensors;
  ModelWeights weights;
  try {
    weights.embedding = weights.matrix(tensors.token_embd, backend);
    weights.head = spec.tied ? weights.embedding : weights.matrix(tensors.output, backend);
    weights.output_norm = weights.vector(tensors.output_norm, backend);
    weights.loop_norm = weights.vector(tensors.loop_norm, backend);
    weights.inject = weights.matrix(tensors.inject, backend);
    weights.inject_decay = weights.vector(tensors.inject_decay, backend);
    for (int32_t i = 0; i < spec.block_count(); ++i) {
      auto& part = i < spec.prelude                 ? weights.prelude
                   : i < spec.prelude + spec.shared ? weights.shared
                                                    : weights.coda;
      part.push_back(weights.layer(tensors.layers[size_t(i)], backend));
    }
  } catch (const base::Failure& failure) {
    return failure.error();
  }
  return weights;
}

WeightMatrix ModelWeights::matrix(const TensorRef& tensor, kernels::Backend& backend) {
  if (!tensor) return {};
  const WeightMatrix file{tensor.type, tensor.rows, tensor.cols, tensor.data};
  WeightMatrix matrix = file;
  matrix.layout = backend.weight_layout(tensor.type);
  if (matrix.layout == WeightLayout::rows) {
    matrix.data = store(tensor, tensor.data, tensor.bytes, backend);
  } else {
    std::vector<std::byte> panels(matrix.bytes());
    kernels::pack_panels(file, panels.data());
    matrix.data = store(tensor, panels.data(), panels.size(), backend);
  }
  return matrix;
}

WeightVector ModelWeights::vector(const TensorRef& tensor, kernels::Backend& backend) {
  if (!tensor) return {};
  return {reinterpret_cast<const float*>(store(tensor, tensor.data, tensor.bytes, backend)),
          tensor.cols};
}

LayerWeights ModelWeights::layer(const LayerTensors& tensors, kernels::Backend& backend) {
  return {
      .attn_norm = vector(tensors.attn_norm, backend),
      .attn_post_norm = vector(tensors.attn_post_norm, backend),
      .ffn_norm = vector(tensors.ffn_norm, backend),
      .ffn_post_norm = vector(tensors.ffn_post_norm, backend),
      .q_norm = vector(tensors.q_norm, backend),
      .k_norm = vector(tensors.k_norm, backend),
      .q = matrix(tensors.q, backend),
      .k = matrix(tensors.k, backend),
      .v = matrix(tensors.v, backend),
      .o = matrix(tensors.o, backend),
      .gate = matrix(tensors.gate, backend),
      .up = matrix(tensors.up, backend),
      .down = matrix(tensors.down, backend),
  };
}

// `bytes` from `from` on: the tensor as it is to lie on the device.
const std::byte* ModelWeights::store(const TensorRef& tensor, const std::byte* from, size_t bytes,
                                     kernels::Backend& backend) {
  kernels::DeviceBuffer buffer(backend.memory(), bytes, kernels::MemoryUse::weights);
  if (!buffer) {
    throw base::Failure(
        errc::out_of_memory,
        "tensor '" + tensor.name + "': " + std::to_string(bytes) + " bytes could not be allocated");
  }
  backend.memory().copy_in(buffer.data(), from, bytes);
  buffers_.push_back(std::move(buffer));
  return buffers_.back().data();
}

}  // namespace tinyloop::engine
