// Weight matrices as they lie on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tinyloop::kernels {

// The tensor types of a model file that the engine computes with. Values are GGUF's.
enum class WeightType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,  // 32 values: fp16 scale d, 16 bytes of codes; value = d · (code − 8)
  q4_1 = 3,  // 32 values: fp16 scale d, fp16 minimum m, 16 bytes; value = d · code + m
  q8_0 = 8,  // 32 values: fp16 scale d, 32 signed bytes; value = d · code
  bf16 = 30,
};

// Values in one block of a type, and bytes of a block. In the 4-bit types byte j of the codes holds
// value j in its low half and value j + 16 in its high half.
struct WeightFormat {
  std::string_view name;
  int32_t block_values;
  int32_t block_bytes;
};

// nullopt: not one of WeightType's values.
std::optional<WeightFormat> weight_format(uint32_t gguf_type) noexcept;
WeightFormat weight_format(WeightType type) noexcept;

// How a matrix lies in memory.
enum class WeightLayout : uint8_t {
  rows,    // row-major, each row a whole number of blocks, as in the file
  panels,  // 32 outputs interleaved, for integer dot products (kernels/weight_panels.h)
  tiles,   // 16 outputs x 64 values of k, for tensor cores (kernels/weight_tiles.h)
};

// W[rows, cols]: `rows` are the outputs of a linear layer, `cols` its inputs. `data` is device
// memory, aligned to 64 bytes, owned by the model.
struct WeightMatrix {
  WeightType type = WeightType::f32;
  int32_t rows = 0;
  int32_t cols = 0;
  const std::byte* data = nullptr;
  WeightLayout layout = WeightLayout::rows;
  // The same numbers again, in FP16 (kernels/fp16_copy.h); null: there is no such copy.
  const std::byte* fp16 = nullptr;

  // Bytes of a row in the layout `rows`.
  size_t row_bytes() const {
    const WeightFormat format = weight_format(type);
    return size_t(cols / format.block_values) * size_t(format.block_bytes);
  }
  // Bytes at `data`.
  size_t bytes() const;
  explicit operator bool() const { return data != nullptr; }
};

// Decodes row `row` of host-readable W, in the layout rows or panels, into out[cols], exactly as
// every CPU op reads it.
void dequantise_row(const WeightMatrix& weights, int32_t row, float* out);

}  // namespace tinyloop::kernels
