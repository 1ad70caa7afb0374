// The metadata part of read_model_spec. Everything here throws base::Failure as described there.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/model_spec.h"

namespace tinyloop::engine {

// Limits of the dimensions. Products of two dimensions that form a row width stay below 2^31.
inline constexpr int64_t kMaxModelWidth = 65536;  // d_model
inline constexpr int64_t kMaxFfnWidth = 1 << 20;
inline constexpr int64_t kMaxVocab = 1 << 22;
inline constexpr int64_t kMaxContext = 1 << 30;
inline constexpr int64_t kMaxHeads = 2048;
inline constexpr int64_t kMaxHeadDim = 512;
inline constexpr int64_t kMaxLayers = 4096;    // distinct layers
inline constexpr int64_t kMaxIterations = 64;  // docs/model-format.md
static_assert(kMaxHeads * kMaxHeadDim <= 1 << 20 && kMaxLayers * kMaxIterations <= 1 << 20);

// Typed, bounded lookups under the prefix of the file's architecture.
class SpecKeys {
 public:
  SpecKeys(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  const GgufFile& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }
  std::string full(std::string_view key) const { return architecture_ + "." + std::string(key); }
  bool contains(std::string_view key) const { return file_.contains(full(key)); }

  // Below `least`: bad_model_file; above `most`: unsupported_model. Missing: `otherwise`, or
  // bad_model_file if there is none.
  int32_t integer(std::string_view key, int64_t least, int64_t most,
                  std::optional<int32_t> otherwise = {}) const;
  // Finite, and `least` <= value <= `most`, else bad_model_file.
  float number(std::string_view key, double least, double most,
               std::optional<float> otherwise = {}) const;
  // The index of the value in `names`, else unsupported_model. Missing: 0.
  size_t choice(std::string_view key, std::span<const std::string_view> names) const;

  [[noreturn]] void fail(errc code, std::string_view key, const std::string& what) const;

 private:
  const GgufFile& file_;
  std::string architecture_;
};

// Refuses keys under the architecture's prefix that are unknown, or have a value that is not
// computed here (rope.scaling.*, a sliding window, experts, …), and files that are one part of
// many, or an addition to a model.
void refuse_unsupported_keys(const SpecKeys& keys);

// Everything of a ModelSpec but the tensors.
ModelSpec read_metadata(const SpecKeys& keys);

}  // namespace tinyloop::engine
