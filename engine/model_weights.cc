#include "engine/model_weights.h"

#include <algorithm>
#include <new>
#include <string>

#include "kernels/weight_panels.h"
#include "kernels/weight_tiles.h"

namespace tinyloop::engine {

using kernels::WeightLayout;
using kernels::WeightMatrix;

namespace {

constexpr size_t kSliceBytes = size_t{1} << 20;  // of packed weights on the host at a time

// Packs `file` and copies it to the device, some units (panels, row tiles) of `unit_bytes` at a
// time.
template <class Pack>
void copy_packed(const WeightMatrix& file, int32_t units, size_t unit_bytes, Pack pack,
                 std::byte* to, kernels::DeviceMemory& memory) {
  const auto step = int32_t(std::clamp<size_t>(kSliceBytes / unit_bytes, 1, size_t(units)));
  std::vector<std::byte> slice(size_t(step) * unit_bytes);
  for (int32_t first = 0; first < units; first += step) {
    const int32_t count = std::min(step, units - first);
    pack(file, first, count, slice.data());
    memory.copy_in(to + size_t(first) * unit_bytes, slice.data(), size_t(count) * unit_bytes);
  }
}

}  // namespace

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
  } catch (const std::bad_alloc&) {
    return base::Error{errc::out_of_memory, "no host memory for the table of tensors"};
  }
  return weights;
}

WeightMatrix ModelWeights::matrix(const TensorRef& tensor, kernels::Backend& backend) {
  if (!tensor) return {};
  const WeightMatrix file{tensor.type, tensor.rows, tensor.cols, tensor.data};
  WeightMatrix matrix = file;
  matrix.layout = backend.weight_layout(tensor.type);
  matrix.data = store(tensor, matrix.bytes(), backend, [&](std::byte* to) {
    switch (matrix.layout) {
      case WeightLayout::rows:
        return backend.memory().copy_in(to, tensor.data, tensor.bytes);
      case WeightLayout::panels:
        return copy_packed(file, kernels::panel_count(file),
                           kernels::panel_bytes(file.type, file.cols), kernels::pack_panels, to,
                           backend.memory());
      case WeightLayout::tiles:
        return copy_packed(file, kernels::row_tiles(file.rows),
                           kernels::tiles_bytes(file.type, 1, file.cols), kernels::pack_tiles, to,
                           backend.memory());
    }
  });
  return matrix;
}

WeightVector ModelWeights::vector(const TensorRef& tensor, kernels::Backend& backend) {
  if (!tensor) return {};
  const std::byte* data = store(tensor, tensor.bytes, backend, [&](std::byte* to) {
    backend.memory().copy_in(to, tensor.data, tensor.bytes);
  });
  return {reinterpret_cast<const float*>(data), tensor.cols};
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

// A block of `bytes` for the tensor, filled by fill(block).
template <class Fill>
const std::byte* ModelWeights::store(const TensorRef& tensor, size_t bytes,
                                     kernels::Backend& backend, Fill fill) {
  const std::string what = "tensor '" + tensor.name + "': ";
  try {
    kernels::DeviceBuffer buffer(backend.memory(), bytes, kernels::MemoryUse::weights);
    if (!buffer) {
      throw base::Failure(errc::out_of_memory,
                          what + std::to_string(bytes) + " bytes could not be allocated");
    }
    fill(buffer.data());
    buffers_.push_back(std::move(buffer));
  } catch (const std::bad_alloc&) {
    throw base::Failure(errc::out_of_memory, what + "no host memory to load it");
  }
  return buffers_.back().data();
}

}  // namespace tinyloop::engine
