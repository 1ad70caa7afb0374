#include "kernels/weight_panels.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tinyloop::kernels {

namespace {

constexpr size_t kHalfBytes = 2;  // of an fp16 number

// Where the parts of a block of the file lie, and how its codes are packed.
struct FileBlock {
  size_t bytes;
  size_t code_offset;
  bool has_minimum;
  bool nibbles;
};

FileBlock file_block(WeightType type) {
  const auto bytes = size_t(weight_format(type).block_bytes);
  switch (type) {
    case WeightType::q4_0:
      return {bytes, kHalfBytes, false, true};
    case WeightType::q4_1:
      return {bytes, 2 * kHalfBytes, true, true};
    case WeightType::q8_0:
      return {bytes, kHalfBytes, false, false};
    default:
      TINYLOOP_CHECK(has_panels(type));
      return {};
  }
}

// Byte j of the file's codes holds values j and j + 16; byte i of dword j of a panel holds values
// 4j + i and 16 + 4j + i: the same pairs in the same order, so that dwords move whole.
void pack_codes(const FileBlock& format, const std::byte* codes, int32_t output, std::byte* to) {
  const size_t dwords = format.nibbles ? 4 : 8;
  for (size_t j = 0; j < dwords; ++j) {
    std::byte* dword = to + (j * kPanelOutputs + size_t(output)) * 4;
    std::memcpy(dword, codes + 4 * j, 4);
    if (format.nibbles) continue;
    for (size_t i = 0; i < 4; ++i) dword[i] ^= std::byte{0x80};  // code + 128, modulo 256
  }
}

}  // namespace

bool has_panels(WeightType type) noexcept {
  return type == WeightType::q4_0 || type == WeightType::q4_1 || type == WeightType::q8_0;
}

void pack_panels(const WeightMatrix& from, int32_t first, int32_t count, std::byte* to) {
  TINYLOOP_CHECK(from.layout == WeightLayout::rows && from.cols % kPanelBlock == 0);
  TINYLOOP_CHECK(first >= 0 && count >= 0 && first + count <= panel_count(from));
  const FileBlock format = file_block(from.type);
  const auto blocks = size_t(from.cols / kPanelBlock);
  const size_t block_bytes = panel_block_bytes(from.type);
  const size_t heads = format.has_minimum ? 2 : 1;  // d, then m
  std::memset(to, 0, size_t(count) * blocks * block_bytes);
  const int32_t end = std::min(from.rows, (first + count) * kPanelOutputs);
  for (int32_t row = first * kPanelOutputs; row < end; ++row) {
    const std::byte* source = from.data + size_t(row) * from.row_bytes();
    std::byte* block = to + size_t(row / kPanelOutputs - first) * blocks * block_bytes;
    const int32_t output = row % kPanelOutputs;
    for (size_t b = 0; b < blocks; ++b, source += format.bytes, block += block_bytes) {
      for (size_t h = 0; h < heads; ++h) {
        std::memcpy(block + (h * kPanelOutputs + size_t(output)) * kHalfBytes,
                    source + h * kHalfBytes, kHalfBytes);
      }
      pack_codes(format, source + format.code_offset, output, block + panel_scale_bytes(from.type));
    }
  }
}

}  // namespace tinyloop::kernels
