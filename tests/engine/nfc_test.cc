#include "engine/nfc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/utf8.h"

namespace tinyloop::engine {
namespace {

TEST(Nfc, ComposesOrdersAndLeavesAlone) {
  EXPECT_EQ(normalise_nfc(""), "");
  EXPECT_EQ(normalise_nfc("plain \x01\n"), "plain \x01\n");
  EXPECT_EQ(normalise_nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(normalise_nfc("\u212B"), "\u00C5");                    // a singleton
  EXPECT_EQ(normalise_nfc("\u0958"), "\u0915\u093C");              // excluded from composition
  EXPECT_EQ(normalise_nfc("q\u0307\u0323"), "q\u0323\u0307");      // canonical order
  EXPECT_EQ(normalise_nfc("\u1112\u1161\u11AB"), "\uD55C");        // Hangul
  EXPECT_EQ(normalise_nfc("\u0344"), "\u0308\u0301");              // a mark of two marks
  EXPECT_EQ(normalise_nfc("\u0F73\u0F71"), "\u0F71\u0F71\u0F72");  // and one of class 0
  EXPECT_EQ(normalise_nfc("\uFB01"), "\uFB01");                    // compatibility: stays
}

TEST(Nfc, BytesThatAreNotUtf8SeparateTexts) {
  EXPECT_EQ(normalise_nfc("e\xFF\u0301"), "e\xFF\u0301");
  EXPECT_EQ(normalise_nfc("\xE2\x82"
                          "e\u0301\xC3"),
            "\xE2\x82\u00E9\xC3");
}

// Marks may come in any order that keeps those of one class in sequence.
TEST(Nfc, OrderOfMarksOfOtherClassesIsNoMatter) {
  std::mt19937 random(9);
  const std::string_view above[] = {"\u0301", "\u0308", "\u0304"}, below[] = {"\u0323", "\u0331"};
  for (int round = 0; round < 2000; ++round) {
    std::string ups, downs, mixed;
    for (int i = 0; i < 8; ++i) {
      const auto mark = random() % 2 ? above[random() % 3] : below[random() % 2];
      (std::ranges::find(above, mark) != std::end(above) ? ups : downs) += mark;
      mixed += mark;
    }
    for (const std::string_view letter : {"a", "o", "\u00FC", "\u4E00"}) {
      const std::string base(letter);
      ASSERT_EQ(normalise_nfc(base + mixed), normalise_nfc(base + downs + ups));
    }
  }
}

// The parts that a long text is normalised in show nowhere.
TEST(Nfc, LongTextsComposeEverywhere) {
  for (const size_t shift : {0, 1, 2}) {
    std::string text(shift, 'x'), expected = text;
    for (int i = 0; i < 100000; ++i) text += "a\u0301", expected += "\u00E1";
    ASSERT_EQ(normalise_nfc(text), expected);
    text.assign(shift, 'x'), expected = text;
    for (int i = 0; i < 50000; ++i) text += "\u1112\u1161\u11AB", expected += "\uD55C";
    ASSERT_EQ(normalise_nfc(text), expected);
  }
}

}  // namespace
}  // namespace tinyloop::engine
