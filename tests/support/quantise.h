// Plain encoders and decoders of the weight formats in kernels/weight.h, independent of the
// kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/weight.h"

namespace tinyloop::testing {

uint16_t to_half(float value);  // nearest, ties to even; overflow gives infinity
float from_half(uint16_t bits);

// `values` are whole blocks of `type`. Each code is the nearest one to its value.
std::vector<std::byte> quantise(kernels::WeightType type, std::span<const float> values);
std::vector<float> dequantise(kernels::WeightType type, std::span<const std::byte> data);

}  // namespace tinyloop::testing
