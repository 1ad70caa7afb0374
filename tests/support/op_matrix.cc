#include "tests/support/op_matrix.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "tests/support/quantise.h"

namespace tinyloop::testing {

using kernels::ScalarType;

namespace {

// A quiet NaN that no arithmetic produces; its low half is one, too, in FP16.
constexpr uint32_t kPoisonBits = 0x7fc07ead;

// Unused columns of a scattered matrix. Rows in FP16 stay aligned to 16 bytes, as those of the
// engine's buffers are.
constexpr int32_t gap(ScalarType type) {
  return type == ScalarType::f16 ? 8 : 5;
}

std::vector<int32_t> choose_lines(int32_t rows, RowLayout layout, OpRandom& random) {
  if (layout == RowLayout::scattered) return random.distinct(rows, 2 * rows + 1);
  std::vector<int32_t> lines(static_cast<size_t>(rows));
  std::iota(lines.begin(), lines.end(), 0);
  return lines;
}

void put(ScalarType type, float value, std::byte* to) {
  const uint16_t half = to_half(value);
  type == ScalarType::f16 ? std::memcpy(to, &half, 2) : std::memcpy(to, &value, 4);
}

float get(ScalarType type, const std::byte* from) {
  uint16_t half;
  float value;
  type == ScalarType::f16 ? std::memcpy(&half, from, 2) : std::memcpy(&value, from, 4);
  return type == ScalarType::f16 ? from_half(half) : value;
}

void fill_with_poison(std::byte* to, size_t bytes, size_t element) {
  for (size_t at = 0; at < bytes; at += element) std::memcpy(to + at, &kPoisonBits, element);
}

}  // namespace

float poison() {
  return std::bit_cast<float>(kPoisonBits);
}

OpMatrix::OpMatrix(kernels::Backend& backend, int32_t rows, int32_t cols, RowLayout layout,
                   OpRandom& random, ScalarType type)
    : OpMatrix(backend, rows, cols, layout, random, std::span<const float>(), type) {}

OpMatrix::OpMatrix(kernels::Backend& backend, int32_t rows, int32_t cols, RowLayout layout,
                   OpRandom& random, std::span<const float> values, ScalarType type)
    : backend_(backend),
      type_(type),
      rows_(rows),
      cols_(cols),
      stride_(layout == RowLayout::scattered ? cols + gap(type) : cols),
      line_count_(layout == RowLayout::scattered ? 2 * rows + 1 : rows),
      layout_(layout),
      lines_(choose_lines(rows, layout, random)),
      index_(backend, lines_),
      data_(backend, initial(values)) {}

size_t OpMatrix::place(int32_t row) const {
  return size_t(lines_[size_t(row)]) * size_t(stride_) * size_of(type_);
}

std::vector<std::byte> OpMatrix::initial(std::span<const float> values) const {
  const size_t element = size_of(type_);
  std::vector<std::byte> all(size_t(line_count_) * size_t(stride_) * element);
  fill_with_poison(all.data(), all.size(), element);
  for (int32_t row = 0; !values.empty() && row < rows_; ++row) {
    for (size_t c = 0; c < size_t(cols_); ++c) {
      put(type_, values[size_t(row) * size_t(cols_) + c], all.data() + place(row) + c * element);
    }
  }
  return all;
}

kernels::RowView OpMatrix::view() const {
  return {data_.data(), type_, stride_, layout_ == RowLayout::scattered ? index_.data() : nullptr};
}

std::vector<float> OpMatrix::values() const {
  backend_.synchronise();
  const std::vector<std::byte> all = data_.read();
  std::vector<float> out;
  out.reserve(size_t(rows_) * size_t(cols_));
  for (int32_t row = 0; row < rows_; ++row) {
    for (size_t c = 0; c < size_t(cols_); ++c) {
      out.push_back(get(type_, all.data() + place(row) + c * size_of(type_)));
    }
  }
  return out;
}

std::vector<kernels::QuantisedBlock> OpMatrix::blocks() const {
  backend_.synchronise();
  const std::vector<std::byte> all = data_.read();
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
  const size_t element = size_of(type_);
  std::vector<std::byte> all = data_.read(), want(all.size());
  for (int32_t row = 0; row < rows_; ++row) {
    fill_with_poison(all.data() + place(row), size_t(cols_) * element, element);
  }
  fill_with_poison(want.data(), want.size(), element);
  return all == want;
}

}  // namespace tinyloop::testing
