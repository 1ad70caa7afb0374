// Parses and verifies everything in a GGUF file but the tensors' values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/gguf_tensor.h"
#include "engine/gguf_value.h"

namespace tinyloop::engine {

// Limits beside the size of the file.
inline constexpr size_t kGgufKeyBytes = 65535;        // the specification's bound
inline constexpr size_t kGgufTensorNameBytes = 64;    // likewise
inline constexpr uint32_t kGgufDims = 4;              // likewise
inline constexpr int kGgufArrayDepth = 4;             // arrays inside arrays
inline constexpr uint64_t kGgufMinAlignment = 8;      // the specification: a multiple of 8
inline constexpr uint64_t kGgufMaxAlignment = 65536;  // more would only be padding
inline constexpr uint64_t kGgufDefaultAlignment = 32;

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = kGgufDefaultAlignment;
  std::vector<GgufEntry> entries;   // in the file's order; keys are unique
  std::vector<GgufTensor> tensors;  // in the file's order; names are unique, data placed
};

// Views of `file` throughout. Throws base::Failure: unsupported_model for another version,
// bad_model_file for anything that contradicts the format or the file's size.
GgufHeader parse_gguf_header(std::span<const std::byte> file);

}  // namespace tinyloop::engine
