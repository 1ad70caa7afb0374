#include "engine/sentencepiece_bpe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <random>

#include "engine/sentencepiece_text.h"
#include "engine/tokenizer.h"

namespace tinyloop::engine {
namespace {

using Ids = std::vector<int32_t>;

// <unk>, <s>, </s>, the 256 byte tokens, then what the test adds.
class PieceVocabulary {
 public:
  PieceVocabulary() {
    data.model = "llama";
    add("<unk>", TokenType::unknown);
    data.bos = add("<s>", TokenType::control);
    data.eos = add("</s>", TokenType::control);
    for (int byte = 0; byte < 256; ++byte) {
      char text[8];
      std::snprintf(text, sizeof text, "<0x%02X>", byte);
      add(text, TokenType::byte);
    }
    data.add_bos = false;
  }
  PieceVocabulary(const PieceVocabulary&) = delete;
  PieceVocabulary& operator=(const PieceVocabulary&) = delete;

  int32_t add(std::string text, TokenType type, float score = 0) {
    data.tokens.push_back(strings_.emplace_back(std::move(text)));
    data.token_types.push_back(static_cast<int32_t>(type));
    data.scores.push_back(score);
    return static_cast<int32_t>(data.tokens.size()) - 1;
  }
  int32_t normal(std::string text, float score) { return add(text, TokenType::normal, score); }
  static int32_t byte(int value) { return 3 + value; }

  TokenizerData data;

 private:
  std::deque<std::string> strings_;
};

Tokenizer make(const PieceVocabulary& tokens) {
  return Tokenizer::create(tokens.data).value();
}

TEST(SentencePieceText, SpacesAndBytes) {
  EXPECT_EQ(escape_spaces(" a  b"), "\u2581a\u2581\u2581b");
  EXPECT_EQ(unescape_spaces("\u2581a\u2581\u2581"), " a  ");
  EXPECT_EQ(escape_spaces(""), "");
  EXPECT_EQ(parse_byte_piece("<0x00>"), 0);
  EXPECT_EQ(parse_byte_piece("<0xFA>"), 0xFA);
  for (const char* text : {"<0xfa>", "<0x0>", "<0x000>", "0x00", "<0x0G>", "", "<0x00>x"}) {
    EXPECT_EQ(parse_byte_piece(text), std::nullopt) << text;
  }
}

TEST(SentencePieceBpe, HigherScoresWinAndTiesGoLeft) {
  PieceVocabulary tokens;
  tokens.data.add_space_prefix = false;
  const int32_t a = tokens.normal("a", -9), b = tokens.normal("b", -9), c = tokens.normal("c", -9);
  const int32_t ab = tokens.normal("ab", -2), bc = tokens.normal("bc", -1);
  const int32_t aa = tokens.normal("aa", -3);
  const Tokenizer tokenizer = make(tokens);
  EXPECT_EQ(tokenizer.encode("abc"), Ids({a, bc}));
  EXPECT_EQ(tokenizer.encode("abab"), Ids({ab, ab}));
  EXPECT_EQ(tokenizer.encode("aaa"), Ids({aa, a}));
  EXPECT_EQ(tokenizer.encode("aab"), Ids({a, ab}));
  EXPECT_EQ(tokenizer.encode("cba"), Ids({c, b, a}));
}

TEST(SentencePieceBpe, MergesThroughCharactersThatAreNoTokens) {
  PieceVocabulary tokens;
  const int32_t pair = tokens.normal("xy", -1), space = tokens.normal("\u2581", -5);
  const Tokenizer tokenizer = make(tokens);
  EXPECT_EQ(tokenizer.encode("xyx"), Ids({space, pair, PieceVocabulary::byte('x')}));
}

TEST(SentencePieceBpe, ASpaceComesFirstAndIsDroppedAgain) {
  PieceVocabulary tokens;
  const int32_t space = tokens.normal("\u2581", -5), a = tokens.normal("a", -4);
  const int32_t space_a = tokens.normal("\u2581a", -1);
  const Tokenizer tokenizer = make(tokens);
  EXPECT_EQ(tokenizer.encode(""), Ids());
  EXPECT_EQ(tokenizer.encode("a a"), Ids({space_a, space_a}));
  EXPECT_EQ(tokenizer.encode(" a"), Ids({space, space_a}));
  EXPECT_EQ(tokenizer.encode(" "), Ids({space, space}));
  EXPECT_EQ(tokenizer.decode(Ids({space_a, space_a})), "a a");
  EXPECT_EQ(tokenizer.decode(Ids({space, space_a})), " a");
  EXPECT_EQ(tokenizer.decode(Ids({a, space_a})), "a a");
  EXPECT_EQ(tokenizer.decode(Ids({1, space_a})), "a");  // <s> shows nothing
  EXPECT_EQ(tokenizer.token_bytes(space_a), " a");
  EXPECT_EQ(tokenizer.piece(space_a), "\u2581a");
  EXPECT_EQ(tokenizer.decode(Ids({PieceVocabulary::byte(' '), a})), " a");  // a byte stays
  tokens.data.add_space_prefix = false;
  EXPECT_EQ(make(tokens).encode("a a"), Ids({a, space_a}));
  EXPECT_EQ(make(tokens).decode(Ids({space_a, space_a})), " a a");
}

TEST(SentencePieceBpe, SpecialTokensBeginTextsOfTheirOwn) {
  PieceVocabulary tokens;
  const int32_t space = tokens.normal("\u2581", -5), a = tokens.normal("a", -4);
  const Tokenizer tokenizer = make(tokens);
  const EncodeOptions parse{.add_bos = true, .parse_special = true};
  const Ids ids = tokenizer.encode("a</s>a</s></s>", parse);
  EXPECT_EQ(ids, Ids({1, space, a, 2, space, a, 2, 2}));
  EXPECT_EQ(tokenizer.decode(ids, {.show_special = true}), "<s>a</s>a</s></s>");
  EXPECT_EQ(tokenizer.decode(ids), "a a");  // as SentencePiece
  EXPECT_EQ(tokenizer.encode("<s>")[0], space);
}

TEST(SentencePieceBpe, UserDefinedTokensStandAlone) {
  PieceVocabulary tokens;
  const int32_t space = tokens.normal("\u2581", -5), a = tokens.normal("a", -4);
  tokens.normal("aa", -1);
  const int32_t user = tokens.add("aab", TokenType::user_defined);
  const int32_t blank = tokens.add("  ", TokenType::user_defined);  // spelled with plain spaces
  const Tokenizer tokenizer = make(tokens);
  EXPECT_EQ(tokenizer.encode("aaab"), Ids({space, a, user}));
  EXPECT_EQ(tokenizer.encode("aaba"), Ids({space, user, a}));
  EXPECT_EQ(tokenizer.encode(" a"), Ids({blank, a}));
  EXPECT_EQ(tokenizer.decode(Ids({blank, a})), " a");
}

TEST(SentencePieceBpe, UnusedTokensAreTakenApart) {
  PieceVocabulary tokens;
  tokens.data.add_space_prefix = false;
  const int32_t a = tokens.normal("a", -9), b = tokens.normal("b", -9), c = tokens.normal("c", -9);
  tokens.add("ab", TokenType::unused, -1);
  const int32_t abc = tokens.normal("abc", -2);
  tokens.add("abcc", TokenType::unused, -3);
  const Tokenizer tokenizer = make(tokens);
  EXPECT_EQ(tokenizer.encode("ab"), Ids({a, b}));
  EXPECT_EQ(tokenizer.encode("abc"), Ids({abc}));
  EXPECT_EQ(tokenizer.encode("abcc"), Ids({abc, c}));
}

TEST(SentencePieceBpe, OneUnknownTokenForWhatHasNone) {
  PieceVocabulary tokens;
  tokens.data.token_types[3 + 0xC3] = static_cast<int32_t>(TokenType::unused);
  tokens.data.token_types[3 + 0xA9] = static_cast<int32_t>(TokenType::unused);
  const int32_t space = tokens.normal("\u2581", -5), a = tokens.normal("a", -9);
  const Tokenizer tokenizer = make(tokens);
  EXPECT_EQ(tokenizer.encode("a\u00E9\u00E9a\u00E9"), Ids({space, a, 0, a, 0}));
  EXPECT_EQ(tokenizer.decode(Ids({space, a, 0})), "a \u2047 ");
  EXPECT_EQ(tokenizer.decode(Ids({space, a, 0}), {.show_special = true}), "a<unk>");
}

// The definition: of all neighbours whose text is a token, merge those with the highest score, the
// leftmost first; begin again.
std::vector<std::string> naive(std::vector<std::string> word,
                               const std::map<std::string, float>& scores) {
  for (;;) {
    const float none = -std::numeric_limits<float>::infinity();
    float best_score = none;
    size_t best = 0;
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const auto entry = scores.find(word[i] + word[i + 1]);
      if (entry != scores.end() && entry->second > best_score) best_score = entry->second, best = i;
    }
    if (best_score == none) return word;
    word[best] += word[best + 1];
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(SentencePieceBpe, EqualsTheDefinitionOnRandomVocabularies) {
  std::mt19937 random(10);
  const std::string letters = "abc";
  for (int round = 0; round < 60; ++round) {
    PieceVocabulary tokens;
    tokens.data.add_space_prefix = false;
    std::map<std::string, float> scores;
    for (int i = 0; i < 40; ++i) {
      std::string text(1 + random() % 5, ' ');
      for (char& c : text) c = letters[random() % letters.size()];
      if (scores.emplace(text, 0.f).second) {
        scores[text] = -static_cast<float>(random() % 12);
        tokens.normal(text, scores[text]);
      }
    }
    const Tokenizer tokenizer = make(tokens);
    for (int i = 0; i < 60; ++i) {
      std::vector<std::string> word(random() % 50), pieces;
      std::string text;
      for (auto& symbol : word) text += symbol = letters[random() % letters.size()];
      for (const int32_t id : tokenizer.encode(text)) {
        pieces.emplace_back(tokenizer.token_bytes(id));
      }
      ASSERT_EQ(pieces, naive(word, scores)) << text;
    }
  }
}

struct BadCase {
  const char* words;
  errc code;
  void (*spoil)(PieceVocabulary&);
};

TEST(SentencePieceBpe, RefusesBadDataByKeyAndValue) {
  const BadCase cases[] = {
      {"tokenizer.ggml.pre = 'llama-bpe', supported with tokenizer.ggml.model = 'llama'",
       errc::unsupported_model, [](PieceVocabulary& v) { v.data.pre = "llama-bpe"; }},
      {"tokenizer.ggml.scores has 258 entries, tokenizer.ggml.tokens has 259", errc::bad_model_file,
       [](PieceVocabulary& v) { v.data.scores.pop_back(); }},
      {"tokenizer.ggml.scores has 0 entries", errc::bad_model_file,
       [](PieceVocabulary& v) { v.data.scores.clear(); }},
      {"tokenizer.ggml.scores[5] = nan, allowed are finite numbers", errc::bad_model_file,
       [](PieceVocabulary& v) { v.data.scores[5] = NAN; }},
      {"no token of type 6 for byte 65, and no unknown token", errc::bad_model_file,
       [](PieceVocabulary& v) {
         v.data.token_types[0] = static_cast<int32_t>(TokenType::control);
         v.data.token_types[3 + 65] = static_cast<int32_t>(TokenType::normal);
       }},
      {"tokenizer.ggml.tokens[259] = '<0x0a>': a token of type 6 (byte), allowed are '<0x00>'",
       errc::bad_model_file, [](PieceVocabulary& v) { v.add("<0x0a>", TokenType::byte); }},
      {"tokenizer.ggml.tokens[259] = '<s>': the same text as token 1", errc::bad_model_file,
       [](PieceVocabulary& v) { v.normal("<s>", 0); }},
      {"tokenizer.ggml.token_type[259] = 7, allowed are 1 to 6", errc::bad_model_file,
       [](PieceVocabulary& v) { v.add("x", static_cast<TokenType>(7)); }},
      {"tokenizer.ggml.unknown_token_id = 259, allowed are 0 to 258", errc::bad_model_file,
       [](PieceVocabulary& v) { v.data.unknown = 259; }},
      {"tokenizer.ggml.bos_token_id is missing", errc::bad_model_file,
       [](PieceVocabulary& v) { v.data.add_bos = true, v.data.bos.reset(); }},
  };
  for (const BadCase& bad : cases) {
    PieceVocabulary tokens;
    bad.spoil(tokens);
    const auto result = Tokenizer::create(tokens.data);
    ASSERT_FALSE(result) << bad.words;
    EXPECT_EQ(result.error().code, bad.code) << bad.words;
    EXPECT_NE(result.error().detail.find(bad.words), std::string::npos) << result.error().detail;
  }
}

}  // namespace
}  // namespace tinyloop::engine
