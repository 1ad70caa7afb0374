// Views of row matrices, the one shape that all ops share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tinyloop::kernels {

enum class ScalarType : uint8_t { f32, f16 };

constexpr size_t size_of(ScalarType type) {
  return type == ScalarType::f32 ? 4 : 2;
}

// `rows` vectors somewhere in a device matrix: row r starts at data + (index ? index[r] : r) ·
// stride elements. `index` is a device array. With an index, rows of many sequences can be taken
// from the residual buffer where they lie, in the order a pass wants them. Rows never overlap.
struct RowView {
  void* data = nullptr;
  ScalarType type = ScalarType::f32;
  int32_t stride = 0;
  const int32_t* index = nullptr;

  // The same rows, starting at column `column`.
  RowView from_column(int32_t column) const {
    RowView view = *this;
    view.data = static_cast<std::byte*>(data) + size_t(column) * size_of(type);
    return view;
  }
  float* f32_row(int32_t row) const {
    const int32_t line = index ? index[row] : row;
    return static_cast<float*>(data) + size_t(line) * size_t(stride);
  }
};

}  // namespace tinyloop::kernels
