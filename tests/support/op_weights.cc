#include "tests/support/op_weights.h"

#include <algorithm>

#include "kernels/weight_tiles.h"
#include "tests/support/quantise.h"

namespace tinyloop::testing {

using kernels::WeightLayout;
using kernels::WeightMatrix;
using kernels::WeightType;

namespace {

float half_operand(float value) {
  constexpr float kMost = 65504.0f;
  return from_half(to_half(std::clamp(value, -kMost, kMost)));
}

WeightLayout layout_on(const kernels::Backend& backend, WeightType type) {
  return backend.weight_layout(type) == WeightLayout::tiles ? WeightLayout::tiles
                                                            : WeightLayout::rows;
}

std::vector<std::byte> lay_out(const WeightMatrix& rows, WeightLayout layout) {
  if (layout == WeightLayout::rows) return {rows.data, rows.data + rows.bytes()};
  std::vector<std::byte> tiles(kernels::tiles_bytes(rows.type, rows.rows, rows.cols));
  kernels::pack_tiles(rows, 0, kernels::row_tiles(rows.rows), tiles.data());
  return tiles;
}

}  // namespace

std::vector<float> operands(const kernels::Backend& backend, std::vector<float> values) {
  if (backend.scratch_type() != kernels::ScalarType::f16) return values;
  std::transform(values.begin(), values.end(), values.begin(), half_operand);
  return values;
}

OpWeights::OpWeights(kernels::Backend& backend, WeightType type, int32_t out, int32_t in,
                     OpRandom& random)
    : file_(quantise(type, random.values(size_t(out) * size_t(in)))),
      matrix_{type, out, in, nullptr, layout_on(backend, type)},
      values_(dequantise(type, file_)),
      operands_(testing::operands(backend, values_)),
      device_(backend, lay_out(in_file(), matrix_.layout)) {
  matrix_.data = device_.data();
  // Tiles hold what is not quantised as F16.
  if (matrix_.layout == WeightLayout::tiles && kernels::tile_type(type) == WeightType::f16) {
    values_ = operands_;
  }
}

WeightMatrix OpWeights::in_file() const {
  return {matrix_.type, matrix_.rows, matrix_.cols, file_.data()};
}

}  // namespace tinyloop::testing
