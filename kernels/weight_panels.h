// The layout of quantised weights that integer dot products read: panels of 32 outputs.
//
// All types are brought to one form: unsigned codes u, a scale d and a minimum m a block of 32,
// with value = d · u + m. Q4_0 has m = −8d and Q8_0, whose codes are stored as u = code + 128, m =
// −128d; only Q4_1 stores its m.
//
// A panel holds its blocks in order of k, so that a linear layer reads it front to back. A block:
//   d [32] fp16, one an output
//   m [32] fp16, Q4_1 alone
//   codes in dwords, one an output and four values of k:
//     4-bit types: [4][32] dwords; byte i of dword [j][o] holds value 4j + i of output o in its low
//                  half and value 16 + 4j + i in its high half
//     Q8_0:        [8][32] dwords; byte i of dword [j][o] is value 4j + i of output o
// A dword thus meets the same four activations in all 32 outputs. The last panel is filled up with
// outputs whose scales and codes are 0.
#pragma once

#include "kernels/weight.h"

namespace tinyloop::kernels {

inline constexpr int32_t kPanelOutputs = 32;
inline constexpr int32_t kPanelBlock = 32;  // values of k in a block

// Whether panels can hold weights of this type: Q4_0, Q4_1, Q8_0.
bool has_panels(WeightType type) noexcept;

// Bytes of a block before its codes (d, and m where the type has one), and of a whole block: both
// are multiples of 64.
constexpr size_t panel_scale_bytes(WeightType type) {
  return kPanelOutputs * size_t{type == WeightType::q4_1 ? 4u : 2u};
}
constexpr size_t panel_block_bytes(WeightType type) {
  const size_t codes = type == WeightType::q8_0 ? kPanelBlock : kPanelBlock / 2;
  return panel_scale_bytes(type) + kPanelOutputs * codes;
}
constexpr size_t panel_bytes(WeightType type, int32_t cols) {
  return size_t(cols / kPanelBlock) * panel_block_bytes(type);
}

// Outputs of W, rounded up to whole panels, ÷ 32.
inline int32_t panel_count(const WeightMatrix& weights) {
  return (weights.rows + kPanelOutputs - 1) / kPanelOutputs;
}

// Rewrites panels [first, first + count) of host-readable `from`, which is in the layout `rows`,
// into `to`, of count · panel_bytes(from.type, from.cols) bytes.
void pack_panels(const WeightMatrix& from, int32_t first, int32_t count, std::byte* to);

}  // namespace tinyloop::kernels
