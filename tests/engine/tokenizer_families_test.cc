// Every family against the ids of the packages it comes from (`tokenizers`, `sentencepiece`), and
// what must hold for any text: round trips, streams, time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <random>

#include "engine/nfc.h"
#include "engine/text_decoder.h"
#include "tests/engine/tokenizer_fixture.h"

namespace tinyloop::engine {
namespace {

using Ids = std::vector<int32_t>;
using test::FamilyCase;
using test::FamilyData;

constexpr EncodeOptions kParse{.add_bos = std::nullopt, .parse_special = true};

struct Family {
  const char* name;
  PreTokenizer first_piece = nullptr;
};

void PrintTo(const Family& family, std::ostream* out) {
  *out << family.name;
}

class TokenizerFamily : public testing::TestWithParam<Family> {
 protected:
  const Tokenizer tokenizer_ = Tokenizer::create(FamilyData(GetParam().name).data).value();
};

class BytePieceFamily : public TokenizerFamily {};
class LosslessFamily : public TokenizerFamily {};  // each byte has a token

constexpr Family kGpt2{"gpt-2", gpt2_piece}, kSmollm{"smollm", smollm_piece},
    kLlama3{"llama-bpe", llama3_piece}, kQwen2{"qwen2", qwen2_piece}, kLlama{"llama"},
    kNoPrefix{"llama-no-prefix"}, kNoBytes{"llama-no-bytes"};

std::string family_name(const testing::TestParamInfo<Family>& family) {
  std::string name = family.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerFamily,
                         testing::Values(kGpt2, kSmollm, kLlama3, kQwen2, kLlama, kNoPrefix,
                                         kNoBytes),
                         family_name);
INSTANTIATE_TEST_SUITE_P(All, BytePieceFamily, testing::Values(kGpt2, kSmollm, kLlama3, kQwen2),
                         family_name);
INSTANTIATE_TEST_SUITE_P(All, LosslessFamily,
                         testing::Values(kGpt2, kSmollm, kLlama3, kQwen2, kLlama, kNoPrefix),
                         family_name);

TEST_P(TokenizerFamily, GivesThePackagesIdsAndTexts) {
  const auto cases = test::family_cases(GetParam().name);
  ASSERT_GE(cases.size(), 10000u);
  for (const FamilyCase& c : cases) {
    ASSERT_EQ(tokenizer_.encode(c.text), c.ids) << c.text;
    ASSERT_EQ(tokenizer_.decode(c.ids), c.decoded) << c.text;
  }
}

TEST_P(BytePieceFamily, ParsesSpecialTokensOnRequest) {
  size_t parsed = 0;
  for (const FamilyCase& c : test::family_cases(GetParam().name)) {
    ASSERT_EQ(tokenizer_.encode(c.text, kParse), c.special) << c.text;
    parsed += c.special != c.ids;
  }
  EXPECT_GT(parsed, 50u);
}

TEST_P(BytePieceFamily, CutsAsThePackageDoes) {
  for (const FamilyCase& c : test::family_cases(GetParam().name)) {
    std::vector<size_t> pieces;
    for (std::string_view rest = c.text; !rest.empty(); rest.remove_prefix(pieces.back())) {
      pieces.push_back(GetParam().first_piece(rest));
    }
    ASSERT_EQ(pieces, c.pieces) << c.text;
  }
}

// Token by token, the bytes cut once more at random: the text of all of them.
TEST_P(TokenizerFamily, StreamsTheTextOfTheWhole) {
  std::mt19937 random(6);
  for (const FamilyCase& c : test::family_cases(GetParam().name)) {
    TextDecoder decoder;
    std::string text;
    bool at_start = true;
    for (const int32_t id : c.ids) {
      std::string_view bytes = tokenizer_.next_bytes(id, at_start);
      while (!bytes.empty()) {
        const size_t length = 1 + random() % bytes.size();
        decoder.push(bytes.substr(0, length), text);
        bytes.remove_prefix(length);
        ASSERT_TRUE(is_valid_utf8(text));
      }
    }
    decoder.flush(text);
    ASSERT_EQ(text, c.decoded);
  }
}

// Valid and broken characters, none of which NFC or SentencePiece changes: so no random bytes that
// begin characters.
std::string broken_text(std::mt19937& random) {
  static constexpr std::string_view kParts[] = {
      "a",        " the", "  ",  "\n",       "\xFF",         "\xC3",
      "\xE2\x82", "\x80", "12",  "'s",       "\xED\xA0\x80", "\xF0",
      "é",        "日本", "😀",   "\xC0\xAF", "\t'",          "LL",
      "\xF4\x90", "!?",   "ไทย", "<tool>",   "\xF0\x9F\x98", "\xEF\xBF"};
  std::string text;
  for (unsigned i = 1 + random() % 12; i > 0; --i) {
    if (random() % 3 == 0) {
      const unsigned byte = random() % 0x100;
      text += static_cast<char>(byte < 0xC0 || byte > 0xF4 ? byte : byte | 0xF8);
    } else {
      text += kParts[random() % std::size(kParts)];
    }
  }
  return text;
}

TEST_P(LosslessFamily, BytesThatAreNotUtf8ComeBack) {
  std::mt19937 random(7);
  size_t broken = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::string text = broken_text(random);
    broken += !is_valid_utf8(text);
    ASSERT_EQ(tokenizer_.decode(tokenizer_.encode(text)), text) << "round " << round;
  }
  EXPECT_GT(broken, 2000u);
}

TEST_P(LosslessFamily, SpecialTokensComeBack) {
  std::mt19937 random(8);
  const std::string control(tokenizer_.piece(*tokenizer_.bos()));
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 3; ++i) text += (random() % 2 ? control : "") + broken_text(random);
    const Ids ids = tokenizer_.encode(text, kParse);
    ASSERT_EQ(tokenizer_.decode(ids, {.show_special = true}), text) << "round " << round;
  }
}

// A megabyte of one character, and the like. Quadratic work would take hours.
TEST_P(LosslessFamily, LongTextsTakeSeconds) {
  constexpr size_t kBytes = size_t{1} << 20;
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string_view unit :
       {"a", " ", "\n", " \n", "7", "!", "'", "\xFF", "\u3000", "\u0301\u0327", "\u0F73", "ab ",
        "x  ", "日", "<tool>", "<", "\u1161", "a\u0301"}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    const std::string decoded = tokenizer_.decode(tokenizer_.encode(text));
    EXPECT_TRUE(decoded == text || decoded == normalise_nfc(text)) << unit;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(2));
}

TEST(TokenizerFamilies, OtherNamesOfAFamily) {
  FamilyData llama3("llama-bpe");
  const std::string text = "It's 12345 README\n\n  ok";
  const Ids ids = Tokenizer::create(llama3.data).value().encode(text);
  for (const char* name : {"llama3", "llama-v3"}) {
    llama3.data.pre = name;
    EXPECT_EQ(Tokenizer::create(llama3.data).value().encode(text), ids) << name;
  }
}

TEST(TokenizerFamilies, BosWhereTheFileIsSilent) {
  for (const auto& [name, adds] :
       {std::pair("gpt-2", false), std::pair("smollm", false), std::pair("llama-bpe", true),
        std::pair("qwen2", false), std::pair("llama", true)}) {
    FamilyData family(name);
    family.data.add_bos = std::nullopt;
    EXPECT_EQ(Tokenizer::create(family.data).value().adds_bos(), adds) << name;
    family.data.bos = std::nullopt;
    EXPECT_FALSE(Tokenizer::create(family.data).value().adds_bos()) << name;
  }
}

}  // namespace
}  // namespace tinyloop::engine
