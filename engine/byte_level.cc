#include "engine/byte_level.h"

#include <array>

#include "engine/utf8.h"

namespace tinyloop::engine {

namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr size_t kSubstitutes = 68;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Tables {
  std::array<char32_t, 256> symbols{};
  std::array<uint8_t, kSubstitutes> substituted{};  // byte of symbol kFirstSubstitute + index
};

constexpr Tables make_tables() {
  Tables tables;
  size_t used = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    tables.symbols[byte] = byte;
    if (stands_for_itself(byte)) continue;
    tables.symbols[byte] = kFirstSubstitute + static_cast<char32_t>(used);
    tables.substituted[used++] = static_cast<uint8_t>(byte);
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

char32_t byte_to_symbol(uint8_t byte) noexcept {
  return kTables.symbols[byte];
}

std::optional<uint8_t> symbol_to_byte(char32_t symbol) noexcept {
  if (symbol < kFirstSubstitute) {
    if (!stands_for_itself(symbol)) return std::nullopt;
    return static_cast<uint8_t>(symbol);
  }
  if (symbol >= kFirstSubstitute + kSubstitutes) return std::nullopt;
  return kTables.substituted[symbol - kFirstSubstitute];
}

std::optional<std::string> decode_byte_level(std::string_view symbols) {
  std::string bytes;
  while (!symbols.empty()) {
    const Utf8Char c = decode_utf8(symbols);
    const auto byte = symbol_to_byte(c.code_point);  // U+FFFD is not in the alphabet
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
    symbols.remove_prefix(c.length);
  }
  return bytes;
}

std::string encode_byte_level(std::string_view bytes) {
  std::string symbols;
  for (const char byte : bytes) append_utf8(byte_to_symbol(static_cast<uint8_t>(byte)), symbols);
  return symbols;
}

}  // namespace tinyloop::engine
