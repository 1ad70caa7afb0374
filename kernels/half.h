// f32 to FP16 in integer arithmetic, for SIMD targets that have no instruction for it.
#pragma once

#include <bit>
#include <cstdint>

namespace tinyloop::kernels {

// The bits of the nearest FP16 number, ties to even; NaN stays NaN. |value| < 65,520, or NaN.
inline uint16_t nearest_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = uint16_t(bits >> 16 & 0x8000);
  const uint32_t size = bits & 0x7FFFFFFF;
  if (size > 0x7F800000) return sign | 0x7E00;
  if (size < 0x38800000) {  // below 2^-14: a multiple of 2^-24, which adding 0.5 rounds to
    const float shifted = std::bit_cast<float>(size) + 0.5f;
    return sign | uint16_t(std::bit_cast<uint32_t>(shifted) - 0x3F000000);
  }
  const uint32_t rounded = size + 0xFFF + (size >> 13 & 1);
  return sign | uint16_t((rounded - 0x38000000) >> 13);
}

}  // namespace tinyloop::kernels
