#include "engine/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace tinyloop::engine {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces(std::string_view text, PreTokenizer first_piece = gpt2_piece) {
  Pieces result;
  while (!text.empty()) {
    const size_t length = first_piece(text);
    EXPECT_GE(length, 1u);
    EXPECT_LE(length, text.size());
    if (length == 0 || length > text.size()) break;
    result.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return result;
}

TEST(PreTokenizer, WordsNumbersAndSigns) {
  EXPECT_EQ(pieces("Hello world"), Pieces({"Hello", " world"}));
  EXPECT_EQ(pieces("a1b22 33"), Pieces({"a", "1", "b", "22", " 33"}));
  EXPECT_EQ(pieces("x+=y; //z"), Pieces({"x", "+=", "y", ";", " //", "z"}));
  EXPECT_EQ(pieces("\u65E5\u672C\u8A9E\uFF11\u3002"),
            Pieces({"\u65E5\u672C\u8A9E", "\uFF11", "\u3002"}));
  EXPECT_EQ(pieces("e\u0301a"), Pieces({"e", "\u0301", "a"}));    // a mark is no letter
  EXPECT_EQ(pieces(" \u00BD\u2167"), Pieces({" \u00BD\u2167"}));  // \p{No}, \p{Nl}
}

TEST(PreTokenizer, Contractions) {
  EXPECT_EQ(pieces("it's"), Pieces({"it", "'s"}));
  EXPECT_EQ(pieces("we'll've"), Pieces({"we", "'ll", "'ve"}));
  EXPECT_EQ(pieces("IT'S"), Pieces({"IT", "'", "S"}));
  EXPECT_EQ(pieces(" 's"), Pieces({" '", "s"}));
  EXPECT_EQ(pieces("''s"), Pieces({"''", "s"}));
  EXPECT_EQ(pieces("'red"), Pieces({"'re", "d"}));
  EXPECT_EQ(pieces("'r"), Pieces({"'", "r"}));
}

TEST(PreTokenizer, WhiteSpaceLeavesItsLastCharacterToTheWord) {
  EXPECT_EQ(pieces("a  b"), Pieces({"a", " ", " b"}));
  EXPECT_EQ(pieces("a\n\nb"), Pieces({"a", "\n", "\n", "b"}));
  EXPECT_EQ(pieces("a \n"), Pieces({"a", " \n"}));
  EXPECT_EQ(pieces("   "), Pieces({"   "}));
  EXPECT_EQ(pieces("\ta"), Pieces({"\t", "a"}));
  EXPECT_EQ(pieces("a\u3000 b"), Pieces({"a", "\u3000", " b"}));
  EXPECT_EQ(pieces("a \u00A0b"), Pieces({"a", " ", "\u00A0", "b"}));
  EXPECT_EQ(pieces("\u200Ba"), Pieces({"\u200B", "a"}));  // zero width: not white space
}

TEST(PreTokenizer, SmollmCutsEachNumber) {
  EXPECT_EQ(pieces("a12 3", smollm_piece), Pieces({"a", "1", "2", " ", "3"}));
  EXPECT_EQ(pieces("a  1", smollm_piece), Pieces({"a", "  ", "1"}));
  EXPECT_EQ(pieces("a  b", smollm_piece), Pieces({"a", " ", " b"}));
  EXPECT_EQ(pieces("\u00BD\u2167!", smollm_piece), Pieces({"\u00BD", "\u2167", "!"}));
}

TEST(PreTokenizer, Llama3KeepsThreeNumbersAndQwen2One) {
  EXPECT_EQ(pieces("a1234 5", llama3_piece), Pieces({"a", "123", "4", " ", "5"}));
  EXPECT_EQ(pieces("a123", qwen2_piece), Pieces({"a", "1", "2", "3"}));
}

TEST(PreTokenizer, Llama3ContractionsInAnyCase) {
  EXPECT_EQ(pieces("IT'S", llama3_piece), Pieces({"IT", "'S"}));
  EXPECT_EQ(pieces("we'Ll", llama3_piece), Pieces({"we", "'Ll"}));
  EXPECT_EQ(pieces("x'\u017Fa", llama3_piece), Pieces({"x", "'\u017F", "a"}));  // folds to s
  EXPECT_EQ(pieces("'l", llama3_piece), Pieces({"'l"}));
  EXPECT_EQ(pieces("'", llama3_piece), Pieces({"'"}));
}

TEST(PreTokenizer, Llama3LinesAndSigns) {
  EXPECT_EQ(pieces("a \n\n  b", llama3_piece), Pieces({"a", " \n\n", " ", " b"}));
  EXPECT_EQ(pieces("x;\n\ny", llama3_piece), Pieces({"x", ";\n\n", "y"}));
  EXPECT_EQ(pieces("\ta", llama3_piece), Pieces({"\ta"}));
  EXPECT_EQ(pieces("\na", llama3_piece), Pieces({"\n", "a"}));
  EXPECT_EQ(pieces("(ab", llama3_piece), Pieces({"(ab"}));
  EXPECT_EQ(pieces("((ab", llama3_piece), Pieces({"((", "ab"}));
  EXPECT_EQ(pieces("\n \u0085", llama3_piece), Pieces({"\n", " \u0085"}));  // no line end
}

TEST(PreTokenizer, BytesThatAreNotUtf8AreSigns) {
  EXPECT_EQ(pieces("a\xFF\xFE!b"), Pieces({"a", "\xFF\xFE!", "b"}));
  EXPECT_EQ(pieces(" \xE2\x82"), Pieces({" \xE2\x82"}));
  EXPECT_EQ(pieces("\xC3 \xC3"), Pieces({"\xC3", " \xC3"}));
}

TEST(PreTokenizer, EveryByteIsInOnePiece) {
  std::mt19937 random(4);
  for (int round = 0; round < 5000; ++round) {
    std::string text(random() % 30, '\0');
    for (char& c : text) c = random() % 2 ? static_cast<char>(random()) : "' \nsa1"[random() % 6];
    for (const PreTokenizer rule : {gpt2_piece, smollm_piece, llama3_piece, qwen2_piece}) {
      std::string joined;
      for (const std::string& piece : pieces(text, rule)) joined += piece;
      ASSERT_EQ(joined, text);
    }
  }
}

}  // namespace
}  // namespace tinyloop::engine
