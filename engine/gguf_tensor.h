// The tensors of a GGUF file: what the header says of each, and whether their data lie rightly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tinyloop::engine {

// `name` and `data` are views of the file. `dims` are in the file's order, the contiguous one
// first: a matrix W[rows, cols] has dims {cols, rows}.
struct GgufTensor {
  std::string_view name;
  std::vector<uint64_t> dims;  // 1 to 4, each >= 1
  uint32_t type = 0;           // GGUF's number; maybe not one of kernels::WeightType
  uint64_t offset = 0;         // from the start of the data section
  uint64_t elements = 0;
  uint64_t bytes = 0;  // 0: the engine does not know the type, the size was not verified
  const std::byte* data = nullptr;
};

// "Q4_K" for 12; "?" for a number without a known name.
std::string_view tensor_type_name(uint32_t type) noexcept;
// "Q4_K (12)"
std::string tensor_type_text(uint32_t type);

// Fills elements and bytes from dims and type. Throws base::Failure(bad_model_file): a dimension of
// 0, more than 2^62 elements or bytes, rows that are not whole blocks.
void measure_tensor(GgufTensor& tensor);

// Points each tensor's data into `section`. Throws base::Failure(bad_model_file): an offset that is
// no multiple of `alignment`, data past the section's end, tensors that overlap.
void place_tensors(std::span<GgufTensor> tensors, std::span<const std::byte> section,
                   uint64_t alignment);

}  // namespace tinyloop::engine
