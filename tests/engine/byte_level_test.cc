#include "engine/byte_level.h"

#include <gtest/gtest.h>

#include <set>

namespace tinyloop::engine {
namespace {

TEST(ByteLevel, KnownSymbols) {
  EXPECT_EQ(byte_to_symbol('A'), U'A');
  EXPECT_EQ(byte_to_symbol(0), U'\u0100');
  EXPECT_EQ(byte_to_symbol('\n'), U'\u010A');
  EXPECT_EQ(byte_to_symbol(' '), U'\u0120');
  EXPECT_EQ(byte_to_symbol(0x7F), U'\u0121');
  EXPECT_EQ(byte_to_symbol(0xA0), U'\u0142');
  EXPECT_EQ(byte_to_symbol(0xAD), U'\u0143');
  EXPECT_EQ(byte_to_symbol(0xFF), U'\u00FF');
}

TEST(ByteLevel, IsABijectionOfTheBytes) {
  std::set<char32_t> symbols;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t symbol = byte_to_symbol(static_cast<uint8_t>(byte));
    symbols.insert(symbol);
    EXPECT_EQ(symbol_to_byte(symbol), byte);
  }
  EXPECT_EQ(symbols.size(), 256u);
  int accepted = 0;
  for (char32_t c = 0; c < 0x11000; ++c) accepted += symbol_to_byte(c).has_value();
  EXPECT_EQ(accepted, 256);
}

TEST(ByteLevel, Texts) {
  EXPECT_EQ(decode_byte_level("\u0120the\u010A"), " the\n");
  EXPECT_EQ(encode_byte_level(" the\n"), "\u0120the\u010A");
  EXPECT_EQ(decode_byte_level(""), "");
  EXPECT_EQ(decode_byte_level("a b"), std::nullopt);     // the space itself is no symbol
  EXPECT_EQ(decode_byte_level("\u0144"), std::nullopt);  // the first behind the substitutes
  EXPECT_EQ(decode_byte_level("a\xFF"), std::nullopt);   // not UTF-8
}

}  // namespace
}  // namespace tinyloop::engine
