#include "kernels/weight.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/weight.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/decode-inl.h"
#include "kernels/weight_panels.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

HWY_INLINE float half_at(const std::byte* halves, int32_t index) {
  return hn::GetLane(splat_half(halves + size_t(index) * 2).part[0]);
}

// One output of a panel (kernels/weight_panels.h): the values that the row decoders give.
void decode_panel_row(const WeightMatrix& weights, int32_t row, float* out) {
  const bool bytes = weights.type == WeightType::q8_0, stored = weights.type == WeightType::q4_1;
  const size_t block_bytes = panel_block_bytes(weights.type);
  const int32_t blocks = weights.cols / kPanelBlock, output = row % kPanelOutputs;
  const std::byte* block =
      weights.data + size_t(row / kPanelOutputs) * size_t(blocks) * block_bytes;
  for (int32_t b = 0; b < blocks; ++b, block += block_bytes, out += kPanelBlock) {
    const float d = half_at(block, output);
    const float m = stored ? half_at(block + 2 * kPanelOutputs, output) : d * (bytes ? -128 : -8);
    const std::byte* codes = block + panel_scale_bytes(weights.type);
    for (int32_t k = 0; k < kPanelBlock; ++k) {
      const int32_t place = bytes ? k : k % 16;
      auto code = uint8_t(codes[(place / 4 * kPanelOutputs + output) * 4 + place % 4]);
      if (!bytes) code = k < 16 ? code & 15 : code >> 4;
      out[k] = d * float(code) + m;
    }
  }
}

void decode_one_row(const WeightMatrix& weights, int32_t row, float* out) {
  if (weights.layout == WeightLayout::panels) return decode_panel_row(weights, row, out);
  const std::byte* from = weights.data + size_t(row) * weights.row_bytes();
  with_decoder(weights.type, [&](auto decoder) TINYLOOP_LAMBDA {
    decode_row<decltype(decoder)>(from, weights.cols, out);
  });
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"
#include "kernels/weight_tiles.h"

namespace tinyloop::kernels {

HWY_EXPORT(decode_one_row);

std::optional<WeightFormat> weight_format(uint32_t gguf_type) noexcept {
  switch (WeightType(gguf_type)) {
    case WeightType::f32:
      return WeightFormat{"F32", 1, 4};
    case WeightType::f16:
      return WeightFormat{"F16", 1, 2};
    case WeightType::bf16:
      return WeightFormat{"BF16", 1, 2};
    case WeightType::q4_0:
      return WeightFormat{"Q4_0", 32, 18};
    case WeightType::q4_1:
      return WeightFormat{"Q4_1", 32, 20};
    case WeightType::q8_0:
      return WeightFormat{"Q8_0", 32, 34};
  }
  return std::nullopt;
}

WeightFormat weight_format(WeightType type) noexcept {
  return weight_format(static_cast<uint32_t>(type)).value_or(WeightFormat{"unknown", 1, 0});
}

size_t WeightMatrix::bytes() const {
  switch (layout) {
    case WeightLayout::rows:
      return row_bytes() * size_t(rows);
    case WeightLayout::panels:
      return size_t(panel_count(*this)) * panel_bytes(type, cols);
    case WeightLayout::tiles:
      return tiles_bytes(type, rows, cols);
  }
  return 0;
}

void dequantise_row(const WeightMatrix& weights, int32_t row, float* out) {
  TINYLOOP_CHECK(weights.data != nullptr && row >= 0 && row < weights.rows);
  TINYLOOP_CHECK(weights.layout != WeightLayout::tiles);
  HWY_DYNAMIC_DISPATCH(decode_one_row)(weights, row, out);
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
