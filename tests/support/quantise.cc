#include "tests/support/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace tinyloop::testing {

using kernels::WeightType;

namespace {

constexpr size_t kBlock = 32;
using Values = std::span<const float>;

void append(std::vector<std::byte>& out, const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  out.insert(out.end(), from, from + bytes);
}

void append_half(std::vector<std::byte>& out, float value) {
  const uint16_t bits = to_half(value);
  append(out, &bits, sizeof bits);
}

float half_at(const std::byte* data) {
  uint16_t bits;
  std::memcpy(&bits, data, sizeof bits);
  return from_half(bits);
}

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

int nearest(float value, float scale, int least, int most) {
  if (scale == 0.0f) return std::clamp(0, least, most);
  return std::clamp(static_cast<int>(std::lround(value / scale)), least, most);
}

// Codes j and j + 16 share byte j.
void append_nibbles(std::vector<std::byte>& out, const int (&codes)[kBlock]) {
  for (size_t j = 0; j < kBlock / 2; ++j) {
    out.push_back(static_cast<std::byte>(codes[j] | codes[j + kBlock / 2] << 4));
  }
}

int nibble(const std::byte* codes, size_t j) {
  const int byte = std::to_integer<int>(codes[j % (kBlock / 2)]);
  return j < kBlock / 2 ? byte & 15 : byte >> 4;
}

float largest(Values block) {
  return *std::max_element(block.begin(), block.end(),
                           [](float a, float b) { return std::abs(a) < std::abs(b); });
}

void encode_q8_0(std::vector<std::byte>& out, Values block) {
  const float scale = from_half(to_half(std::abs(largest(block)) / 127.0f));
  append_half(out, scale);
  for (const float value : block) {
    out.push_back(static_cast<std::byte>(nearest(value, scale, -127, 127)));
  }
}

void encode_q4_0(std::vector<std::byte>& out, Values block) {
  const float scale = from_half(to_half(largest(block) / -8.0f));
  append_half(out, scale);
  int codes[kBlock];
  for (size_t j = 0; j < kBlock; ++j) codes[j] = nearest(block[j], scale, -8, 7) + 8;
  append_nibbles(out, codes);
}

void encode_q4_1(std::vector<std::byte>& out, Values block) {
  const auto [least, most] = std::minmax_element(block.begin(), block.end());
  const float minimum = from_half(to_half(*least));
  const float scale = from_half(to_half((*most - *least) / 15.0f));
  append_half(out, scale);
  append_half(out, minimum);
  int codes[kBlock];
  for (size_t j = 0; j < kBlock; ++j) codes[j] = nearest(block[j] - minimum, scale, 0, 15);
  append_nibbles(out, codes);
}

void encode_block(WeightType type, std::vector<std::byte>& out, Values block) {
  switch (type) {
    case WeightType::f32:
      return append(out, block.data(), sizeof(float));
    case WeightType::f16:
      return append_half(out, block[0]);
    case WeightType::bf16: {
      const uint16_t bits = to_bf16(block[0]);
      return append(out, &bits, sizeof bits);
    }
    case WeightType::q8_0:
      return encode_q8_0(out, block);
    case WeightType::q4_0:
      return encode_q4_0(out, block);
    case WeightType::q4_1:
      return encode_q4_1(out, block);
  }
}

float decode_value(WeightType type, const std::byte* block, size_t j) {
  switch (type) {
    case WeightType::f32: {
      float value;
      std::memcpy(&value, block, sizeof value);
      return value;
    }
    case WeightType::f16:
      return half_at(block);
    case WeightType::bf16: {
      uint16_t bits;
      std::memcpy(&bits, block, sizeof bits);
      return std::bit_cast<float>(uint32_t{bits} << 16);
    }
    case WeightType::q8_0:
      return half_at(block) * static_cast<float>(static_cast<int8_t>(block[2 + j]));
    case WeightType::q4_0:
      return half_at(block) * static_cast<float>(nibble(block + 2, j) - 8);
    case WeightType::q4_1:
      return half_at(block) * static_cast<float>(nibble(block + 4, j)) + half_at(block + 2);
  }
  return 0.0f;
}

}  // namespace

uint16_t to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  // Below 2^-14 halves are multiples of 2^-24; the rounding mode of nearbyint is ties to even.
  if (magnitude < 0x1p-14f)
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  const uint32_t rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded >> 13) - (112 << 10));
}

float from_half(uint16_t bits) {
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  if (exponent == 31) return fraction ? std::nanf("") : sign * HUGE_VALF;
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

std::vector<std::byte> quantise(WeightType type, Values values) {
  const auto block = static_cast<size_t>(kernels::weight_format(type).block_values);
  if (values.size() % block != 0) throw std::invalid_argument("quantise: not whole blocks");
  std::vector<std::byte> out;
  for (size_t i = 0; i < values.size(); i += block)
    encode_block(type, out, values.subspan(i, block));
  return out;
}

std::vector<float> dequantise(WeightType type, std::span<const std::byte> data) {
  const kernels::WeightFormat format = kernels::weight_format(type);
  const auto bytes = static_cast<size_t>(format.block_bytes);
  if (data.size() % bytes != 0) throw std::invalid_argument("dequantise: not whole blocks");
  std::vector<float> out;
  for (size_t i = 0; i < data.size(); i += bytes) {
    for (size_t j = 0; j < static_cast<size_t>(format.block_values); ++j) {
      out.push_back(decode_value(type, data.data() + i, j));
    }
  }
  return out;
}

}  // namespace tinyloop::testing
