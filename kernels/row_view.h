// Views of row matrices, the one shape that all ops share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tinyloop::kernels {

// q8: rows of QuantisedBlocks, 8-bit activations with a scale for every 32.
enum class ScalarType : uint8_t { f32, f16, q8 };

// Bytes of an element; of q8, whose rows are blocks, those in which a row's stride is counted.
constexpr size_t size_of(ScalarType type) {
  return type == ScalarType::f32 ? 4 : type == ScalarType::f16 ? 2 : 1;
}

// 32 activations x ≈ scale · code, rounded to the nearest, |code| <= 127, scale = max |x| / 127. A
// value that is not finite makes the scale infinite or NaN, and so every output that reads it. The
// sums serve weights whose values are d · u + m: Σ (d · u + m) · x = scale · d · Σ u · code + m ·
// scaled_sum.
struct QuantisedBlock {
  static constexpr int32_t kValues = 32;

  float scale;
  float scaled_sum;      // scale · Σ code
  int32_t minus_8_sums;  // −8 · Σ code
  int8_t codes[kValues];
};
static_assert(sizeof(QuantisedBlock) == 44);

constexpr size_t quantised_bytes(int32_t cols) {
  return size_t(cols / QuantisedBlock::kValues) * sizeof(QuantisedBlock);
}

// `rows` vectors somewhere in a device matrix: row r starts at data + (index ? index[r] : r) ·
// stride elements. `index` is a device array. With an index, rows of many sequences can be taken
// from the residual buffer where they lie, in the order a pass wants them. Rows never overlap.
struct RowView {
  void* data = nullptr;
  ScalarType type = ScalarType::f32;
  int32_t stride = 0;
  const int32_t* index = nullptr;

  // The same rows, starting at column `column`. Not for q8.
  RowView from_column(int32_t column) const {
    RowView view = *this;
    view.data = static_cast<std::byte*>(data) + size_t(column) * size_of(type);
    return view;
  }
  // The rows from `row` on.
  RowView from_row(int32_t row) const {
    RowView view = *this;
    if (index) {
      view.index = index + row;
    } else {
      view.data = static_cast<std::byte*>(data) + size_t(row) * size_t(stride) * size_of(type);
    }
    return view;
  }
  float* f32_row(int32_t row) const {
    const int32_t line = index ? index[row] : row;
    return static_cast<float*>(data) + size_t(line) * size_t(stride);
  }
  QuantisedBlock* q8_row(int32_t row) const {
    const int32_t line = index ? index[row] : row;
    return reinterpret_cast<QuantisedBlock*>(static_cast<std::byte*>(data) +
                                             size_t(line) * size_t(stride));
  }
  bool operator==(const RowView&) const = default;
  // The memory of f32 rows, to hold the same number of q8 values: each row begins where it did.
  RowView as_q8() const { return {data, ScalarType::q8, int32_t(stride * 4), index}; }
};

}  // namespace tinyloop::kernels
