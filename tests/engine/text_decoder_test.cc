#include "engine/text_decoder.h"

#include <gtest/gtest.h>

#include <random>

namespace tinyloop::engine {
namespace {

TEST(TextDecoder, HoldsBackHalfCharacters) {
  TextDecoder decoder;
  std::string text;
  decoder.push("a\xF0", text);
  EXPECT_EQ(text, "a");
  decoder.push("\x9F\x98", text);
  EXPECT_EQ(text, "a");
  decoder.push("", text);
  decoder.push("\x80z", text);
  EXPECT_EQ(text, "a\xF0\x9F\x98\x80z");
  decoder.flush(text);
  EXPECT_EQ(text, "a\xF0\x9F\x98\x80z");
}

TEST(TextDecoder, ReplacesWhatCannotBecomeACharacter) {
  TextDecoder decoder;
  std::string text;
  decoder.push("\xE2\x82", text);
  EXPECT_EQ(text, "");
  decoder.push("A", text);
  EXPECT_EQ(text, "\uFFFDA");
  decoder.push("\xF0\x9F", text);
  decoder.push("\xE2\x82\xAC", text);  // what is cut off is replaced, the new character kept
  EXPECT_EQ(text, "\uFFFDA\uFFFD\u20AC");
  decoder.push("\xC3", text);
  decoder.flush(text);
  EXPECT_EQ(text, "\uFFFDA\uFFFD\u20AC\uFFFD");
  decoder.push("\xA9", text);  // nothing is left of the flushed half
  EXPECT_EQ(text, "\uFFFDA\uFFFD\u20AC\uFFFD\uFFFD");
}

TEST(TextDecoder, AnyCutGivesTheSanitisedText) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (unsigned i = random() % 10; i > 0; --i) {
      if (random() % 2) {
        append_utf8(static_cast<char32_t>(random() % 0xD800), bytes);
      } else {
        bytes += static_cast<char>(random() % 256);
      }
    }
    TextDecoder decoder;
    std::string text;
    for (size_t done = 0; done < bytes.size();) {
      const size_t length = std::min<size_t>(random() % 5, bytes.size() - done);
      const size_t before = text.size();
      decoder.push(std::string_view(bytes).substr(done, length), text);
      done += length;
      ASSERT_LE(text.size() - before, TextDecoder::max_output(length));
      ASSERT_TRUE(is_valid_utf8(text));
    }
    decoder.flush(text);
    ASSERT_EQ(text, sanitise_utf8(bytes));
  }
}

}  // namespace
}  // namespace tinyloop::engine
