#include "tests/support/op_matrix.h"

#include <bit>
#include <cstring>
#include <numeric>

namespace tinyloop::testing {

namespace {

constexpr uint32_t kPoisonBits = 0x7fc0dead;  // a quiet NaN that no arithmetic produces
constexpr int32_t kGap = 5;                   // unused columns of a scattered matrix

std::vector<int32_t> choose_lines(int32_t rows, RowLayout layout, OpRandom& random) {
  if (layout == RowLayout::scattered) return random.distinct(rows, 2 * rows + 1);
  std::vector<int32_t> lines(static_cast<size_t>(rows));
  std::iota(lines.begin(), lines.end(), 0);
  return lines;
}

}  // namespace

float poison() {
  return std::bit_cast<float>(kPoisonBits);
}

OpMatrix::OpMatrix(kernels::Backend& backend, int32_t rows, int32_t cols, RowLayout layout,
                   OpRandom& random)
    : OpMatrix(backend, rows, cols, layout, random, {}) {}

OpMatrix::OpMatrix(kernels::Backend& backend, int32_t rows, int32_t cols, RowLayout layout,
                   OpRandom& random, std::span<const float> values)
    : backend_(backend),
      rows_(rows),
      cols_(cols),
      stride_(layout == RowLayout::scattered ? cols + kGap : cols),
      line_count_(layout == RowLayout::scattered ? 2 * rows + 1 : rows),
      layout_(layout),
      lines_(choose_lines(rows, layout, random)),
      index_(backend, lines_),
      data_(backend, initial(values)) {}

std::vector<float> OpMatrix::initial(std::span<const float> values) const {
  std::vector<float> all(size_t(line_count_) * size_t(stride_), poison());
  for (int32_t row = 0; !values.empty() && row < rows_; ++row) {
    std::copy_n(values.begin() + ptrdiff_t(row) * cols_, cols_,
                all.begin() + ptrdiff_t(place(row)));
  }
  return all;
}

kernels::RowView OpMatrix::view() const {
  return {data_.data(), kernels::ScalarType::f32, stride_,
          layout_ == RowLayout::scattered ? index_.data() : nullptr};
}

std::vector<float> OpMatrix::values() const {
  backend_.synchronise();
  const std::vector<float> all = data_.read();
  std::vector<float> out;
  for (int32_t row = 0; row < rows_; ++row) {
    const auto first = all.begin() + ptrdiff_t(place(row));
    out.insert(out.end(), first, first + cols_);
  }
  return out;
}

std::vector<kernels::QuantisedBlock> OpMatrix::blocks() const {
  backend_.synchronise();
  const std::vector<float> all = data_.read();
  const auto count = size_t(cols_ / kernels::QuantisedBlock::kValues);
  std::vector<kernels::QuantisedBlock> out(size_t(rows_) * count);
  for (int32_t row = 0; row < rows_; ++row) {
    std::memcpy(out.data() + size_t(row) * count, all.data() + place(row),
                kernels::quantised_bytes(cols_));
  }
  return out;
}

bool OpMatrix::untouched() const {
  backend_.synchronise();
  std::vector<float> all = data_.read();
  for (int32_t row = 0; row < rows_; ++row) {
    std::fill_n(all.begin() + ptrdiff_t(place(row)), cols_, poison());
  }
  return std::all_of(all.begin(), all.end(),
                     [](float v) { return std::bit_cast<uint32_t>(v) == kPoisonBits; });
}

}  // namespace tinyloop::testing
