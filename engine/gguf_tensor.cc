#include "engine/gguf_tensor.h"

#include <algorithm>

#include "base/error.h"
#include "engine/gguf_text.h"
#include "kernels/weight.h"

namespace tinyloop::engine {

namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 62;

[[noreturn]] void fail(const GgufTensor& tensor, const std::string& what) {
  throw base::Failure(errc::bad_model_file, tensor_text(tensor.name) + ": " + what);
}

void place(GgufTensor& tensor, std::span<const std::byte> section, uint64_t alignment) {
  if (tensor.offset % alignment != 0) {
    fail(tensor, "offset " + std::to_string(tensor.offset) +
                     " is not a multiple of the alignment " + std::to_string(alignment));
  }
  if (tensor.offset > section.size() || tensor.bytes > section.size() - tensor.offset) {
    fail(tensor, "offset " + std::to_string(tensor.offset) + " with " +
                     std::to_string(tensor.bytes) + " bytes reaches past the end of the data at " +
                     std::to_string(section.size()));
  }
  tensor.data = section.data() + tensor.offset;
}

}  // namespace

std::string_view tensor_type_name(uint32_t type) noexcept {
  constexpr std::string_view kNames[] = {
      "F32",     "F16",    "Q4_0",    "Q4_1",  "?",      "?",     "Q5_0",  "Q5_1",
      "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
      "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
      "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16",  "?",
      "?",       "?",      "TQ1_0",   "TQ2_0", "?",      "?",     "?",     "MXFP4"};
  return type < std::size(kNames) ? kNames[type] : "?";
}

std::string tensor_type_text(uint32_t type) {
  return std::string(tensor_type_name(type)) + " (" + std::to_string(type) + ")";
}

void measure_tensor(GgufTensor& tensor) {
  tensor.elements = 1;
  for (const uint64_t dim : tensor.dims) {
    if (dim == 0) fail(tensor, "shape " + shape_text(tensor.dims) + " has a dimension of 0");
    if (dim > kMostElements / tensor.elements) {
      fail(tensor, "shape " + shape_text(tensor.dims) + " has more than 2^62 elements");
    }
    tensor.elements *= dim;
  }
  const auto format = kernels::weight_format(tensor.type);
  if (!format) return;
  const auto block_values = static_cast<uint64_t>(format->block_values);
  const auto block_bytes = static_cast<uint64_t>(format->block_bytes);
  if (tensor.dims.front() % block_values != 0) {
    fail(tensor, "shape " + shape_text(tensor.dims) +
                     ": the first dimension is not a multiple of " + std::to_string(block_values) +
                     ", the block of " + tensor_type_text(tensor.type));
  }
  const uint64_t blocks = tensor.elements / block_values;
  if (blocks > kMostElements / block_bytes) {
    fail(tensor, "shape " + shape_text(tensor.dims) + " has more than 2^62 bytes");
  }
  tensor.bytes = blocks * block_bytes;
}

void place_tensors(std::span<GgufTensor> tensors, std::span<const std::byte> section,
                   uint64_t alignment) {
  std::vector<const GgufTensor*> by_offset;
  for (GgufTensor& tensor : tensors) {
    place(tensor, section, alignment);
    if (tensor.bytes != 0) by_offset.push_back(&tensor);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const GgufTensor& before = *by_offset[i - 1];
    if (before.offset + before.bytes > by_offset[i]->offset) {
      fail(*by_offset[i], "offset " + std::to_string(by_offset[i]->offset) + " lies inside " +
                              tensor_text(before.name) + ", which ends at " +
                              std::to_string(before.offset + before.bytes));
    }
  }
}

}  // namespace tinyloop::engine
