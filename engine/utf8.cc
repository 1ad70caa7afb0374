#include "engine/utf8.h"

namespace tinyloop::engine {

namespace {

// What the first byte says: the length of the character, and the range of its second byte.
struct Lead {
  uint8_t length = 0;  // 0: begins no character
  uint8_t second_min = 0x80, second_max = 0xBF;
};

constexpr Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

constexpr uint8_t kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};

}  // namespace

Utf8Char decode_utf8(std::string_view bytes) noexcept {
  const auto first = static_cast<uint8_t>(bytes[0]);
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {kReplacementCharacter, 1, Utf8Status::invalid};
  char32_t code_point = first & kLeadBits[lead.length];
  for (uint8_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {kReplacementCharacter, i, Utf8Status::incomplete};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80, max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {kReplacementCharacter, i, Utf8Status::invalid};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {code_point, lead.length, Utf8Status::valid};
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto continuation = [&](int shift) {
    out += static_cast<char>(0x80 | (code_point >> shift & 0x3F));
  };
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | code_point >> 6);
    continuation(0);
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xE0 | code_point >> 12);
    continuation(6);
    continuation(0);
  } else {
    out += static_cast<char>(0xF0 | code_point >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

bool is_valid_utf8(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const Utf8Char c = decode_utf8(bytes);
    if (c.status != Utf8Status::valid) return false;
    bytes.remove_prefix(c.length);
  }
  return true;
}

std::string sanitise_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Char c = decode_utf8(bytes);
    out += c.status == Utf8Status::valid ? bytes.substr(0, c.length) : kReplacementUtf8;
    bytes.remove_prefix(c.length);
  }
  return out;
}

}  // namespace tinyloop::engine
