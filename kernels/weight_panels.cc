#include "kernels/weight_panels.h"

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

size_t panel_block_bytes(WeightType type) noexcept {
  const size_t halves = type == WeightType::q4_1 ? 2 : 1;
  const size_t codes = type == WeightType::q8_0 ? kPanelBlock : kPanelBlock / 2;
  return kPanelOutputs * (halves * kHalfBytes + codes);
}

void pack_panels(const WeightMatrix& from, std::byte* to) {
  TINYLOOP_CHECK(from.layout == WeightLayout::rows && from.cols % kPanelBlock == 0);
  const FileBlock format = file_block(from.type);
  const auto blocks = size_t(from.cols / kPanelBlock);
  const size_t block_bytes = panel_block_bytes(from.type);
  std::memset(to, 0, size_t(panel_count(from)) * blocks * block_bytes);
  for (int32_t row = 0; row < from.rows; ++row) {
    const std::byte* source = from.data + size_t(row) * from.row_bytes();
    std::byte* block = to + size_t(row / kPanelOutputs) * blocks * block_bytes;
    const int32_t output = row % kPanelOutputs;
    for (size_t b = 0; b < blocks; ++b, source += format.bytes, block += block_bytes) {
      const size_t heads = format.has_minimum ? 2 : 1;  // d, then m
      for (size_t h = 0; h < heads; ++h) {
        std::memcpy(block + (h * kPanelOutputs + size_t(output)) * kHalfBytes,
                    source + h * kHalfBytes, kHalfBytes);
      }
      pack_codes(format, source + format.code_offset, output,
                 block + heads * kPanelOutputs * kHalfBytes);
    }
  }
}

}  // namespace tinyloop::kernels
