#include "engine/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace tinyloop::engine {
namespace {

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    append_utf8(c, bytes);
    const Utf8Char decoded = decode_utf8(bytes);
    ASSERT_EQ(decoded.status, Utf8Status::valid) << static_cast<uint32_t>(c);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, bytes.size());
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const Utf8Char half = decode_utf8(std::string_view(bytes).substr(0, cut));
      ASSERT_EQ(half.status, Utf8Status::incomplete) << static_cast<uint32_t>(c);
      ASSERT_EQ(half.length, cut);
    }
  }
}

TEST(Utf8, KnownEncodings) {
  std::string bytes;
  for (const char32_t c : {U'A', U'\u00E9', U'\u20AC', U'\U0001F600'}) append_utf8(c, bytes);
  EXPECT_EQ(bytes, "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
}

// The examples of the Unicode Standard, chapter 3.9, tables 3-8 to 3-11.
TEST(Utf8, MaximalSubparts) {
  const std::string r(kReplacementUtf8);
  const auto times = [&](int count) {
    std::string text;
    while (count-- > 0) text += r;
    return text;
  };
  EXPECT_EQ(sanitise_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), times(8) + "A");
  EXPECT_EQ(sanitise_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), times(8) + "A");
  EXPECT_EQ(sanitise_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), times(5) + "A" + times(2) + "B");
  EXPECT_EQ(sanitise_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), times(4) + "A");
  EXPECT_EQ(sanitise_utf8("a\xF1\x80\x80\xE1\x80\xC2"
                          "b\x80"
                          "c\x80\xBF"
                          "d"),
            "a" + times(3) + "b" + r + "c" + times(2) + "d");
  EXPECT_EQ(sanitise_utf8("x\xF0\x9F\x98"), "x" + r);
  EXPECT_EQ(sanitise_utf8("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(sanitise_utf8(""), "");
}

TEST(Utf8, SanitisedTextIsValidAndValidTextIsUntouched) {
  std::mt19937 random(2);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random() % 12, '\0');
    for (char& byte : bytes) {
      // Mostly bytes that occur in multi-byte characters.
      byte = static_cast<char>(random() % 4 == 0 ? random() % 256 : 0x80 + random() % 128);
    }
    const std::string text = sanitise_utf8(bytes);
    ASSERT_TRUE(is_valid_utf8(text));
    ASSERT_EQ(is_valid_utf8(bytes), text == bytes);
  }
}

TEST(Utf8, Validity) {
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(is_valid_utf8("a\u00E9\u20AC"));
  EXPECT_FALSE(is_valid_utf8("\xC3"));
  EXPECT_FALSE(is_valid_utf8("\xC1\x81"));
  EXPECT_FALSE(is_valid_utf8("\xED\xA0\x80"));
  EXPECT_FALSE(is_valid_utf8("\xF4\x90\x80\x80"));
}

}  // namespace
}  // namespace tinyloop::engine
