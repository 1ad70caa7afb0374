#include "engine/fp16_cache.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <new>
#include <string>
#include <utility>

namespace tinyloop::engine {

using kernels::WeightMatrix;

namespace {

size_t copy_bytes(const WeightMatrix& matrix) {
  return matrix ? kernels::fp16_copy_bytes(matrix.rows, matrix.cols) : 0;
}

// Makes copies while there is room for them.
class Copier {
 public:
  Copier(ModelWeights& weights, kernels::Backend& backend, size_t limit)
      : weights_(weights), backend_(backend), left_(limit) {}

  void copy(LayerWeights& layer) {
    copy({&layer.q, &layer.k, &layer.v});
    copy({&layer.o});
    copy({&layer.gate, &layer.up});
    copy({&layer.down});
  }

  // Matrices that the same rows meet. Absent ones are left out.
  void copy(std::initializer_list<WeightMatrix*> group) {
    size_t bytes = 0;
    for (const WeightMatrix* matrix : group) bytes += copy_bytes(*matrix);
    if (bytes == 0 || bytes > left_) return;
    left_ -= bytes;
    std::byte* to = take(bytes);
    for (WeightMatrix* matrix : group) {
      if (!*matrix) continue;
      backend_.fp16_copy({*matrix, to});
      matrix->fp16 = to;
      to += copy_bytes(*matrix);
    }
  }

 private:
  std::byte* take(size_t bytes);

  ModelWeights& weights_;
  kernels::Backend& backend_;
  size_t left_;
};

std::byte* Copier::take(size_t bytes) {
  kernels::DeviceBuffer buffer(backend_.memory(), bytes, kernels::MemoryUse::fp16_weight_cache);
  if (!buffer) {
    throw base::Failure(errc::out_of_memory, "FP16 weight cache: " + std::to_string(bytes) +
                                                 " bytes could not be allocated");
  }
  std::byte* data = buffer.data();
  weights_.keep(std::move(buffer));
  return data;
}

}  // namespace

base::Result<std::optional<size_t>> fp16_cache_limit(const ModelOptions& options) {
  if (options.fp16_cache_bytes) return options.fp16_cache_bytes;
  const char* text = std::getenv(kFp16CacheVariable);
  if (!text) return std::optional<size_t>();
  size_t bytes = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, bytes);
  if (error == std::errc() && stop == end) return std::optional(bytes);
  return base::Error{errc::invalid_argument,
                     std::string(kFp16CacheVariable) + ": '" + text + "', allowed: 0 to " +
                         std::to_string(std::numeric_limits<size_t>::max())};
}

void add_fp16_copies(ModelWeights& weights, kernels::Backend& backend,
                     const std::optional<size_t>& limit) {
  try {
    Copier copier(weights, backend, limit.value_or(std::numeric_limits<size_t>::max()));
    copier.copy({&weights.inject});
    for (LayerWeights& layer : weights.shared) copier.copy(layer);
    if (limit) {
      for (auto* layers : {&weights.prelude, &weights.coda}) {
        for (LayerWeights& layer : *layers) copier.copy(layer);
      }
    }
    backend.synchronise();  // what goes wrong on the device is an error of the load
  } catch (const std::bad_alloc&) {
    throw base::Failure(errc::out_of_memory, "no host memory for the table of FP16 copies");
  }
}

}  // namespace tinyloop::engine
