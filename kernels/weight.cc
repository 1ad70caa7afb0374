#include "kernels/weight.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/weight.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

void decode_one_row(const WeightMatrix& weights, int32_t row, float* out) {
  const std::byte* from = weights.data + size_t(row) * weights.row_bytes();
  with_decoder(weights.type, [&](auto decoder) TINYLOOP_LAMBDA {
    decode_row<decltype(decoder)>(from, weights.cols, out);
  });
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"

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

void dequantise_row(const WeightMatrix& weights, int32_t row, float* out) {
  TINYLOOP_CHECK(weights.data != nullptr && row >= 0 && row < weights.rows);
  HWY_DYNAMIC_DISPATCH(decode_one_row)(weights, row, out);
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
