#include "engine/tokenizer.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/engine/byte_vocabulary.h"

namespace tinyloop::engine {
namespace {

using test::ByteVocabulary;
using Ids = std::vector<int32_t>;

Tokenizer make(const ByteVocabulary& tokens) {
  return Tokenizer::create(tokens.data).value();
}

TEST(Tokenizer, EncodesPiecesOnTheirOwn) {
  ByteVocabulary tokens;
  const int32_t ab = tokens.merge("a", "b");
  const int32_t space_ab = tokens.merge("\u0120", "ab");
  tokens.merge("b", "\u0120");  // never applies: the space begins the next piece
  const Tokenizer tokenizer = make(tokens);
  EXPECT_EQ(tokenizer.encode("ab ab"), Ids({ab, space_ab}));
  EXPECT_EQ(tokenizer.encode(""), Ids());
  EXPECT_EQ(tokenizer.decode(Ids({ab, space_ab})), "ab ab");
  EXPECT_EQ(tokenizer.vocab_size(), 259);
  EXPECT_EQ(tokenizer.piece(space_ab), "\u0120ab");
  EXPECT_EQ(tokenizer.token_bytes(space_ab), " ab");
  EXPECT_EQ(tokenizer.find_piece("\u0120ab"), space_ab);
  EXPECT_EQ(tokenizer.find_piece(" ab"), std::nullopt);
  EXPECT_EQ(tokenizer.max_token_bytes(), 3u);
}

TEST(Tokenizer, SpecialTokensAreParsedOnRequestAlone) {
  ByteVocabulary tokens;
  const int32_t s = tokens.add("<s>", TokenType::control);
  const int32_t longer = tokens.add("<s>>", TokenType::control);
  const int32_t unknown = tokens.add("<unk>", TokenType::unknown);
  const Tokenizer tokenizer = make(tokens);
  EXPECT_EQ(tokenizer.encode("<s>"), Ids({'<', 's', '>'}));
  const EncodeOptions parse{.add_bos = std::nullopt, .parse_special = true};
  EXPECT_EQ(tokenizer.encode("a<s><s>>b<unk><s", parse),
            Ids({'a', s, longer, 'b', unknown, '<', 's'}));
  EXPECT_EQ(tokenizer.encode("<<s>", parse), Ids({'<', s}));
  const Ids ids = {'a', s, unknown, 'b'};
  EXPECT_EQ(tokenizer.decode(ids), "ab");
  EXPECT_EQ(tokenizer.decode(ids, {.show_special = true}), "a<s><unk>b");
  EXPECT_TRUE(tokenizer.is_control(s));
  EXPECT_FALSE(tokenizer.is_control(unknown));
  EXPECT_FALSE(tokenizer.is_control('a'));
  EXPECT_FALSE(tokenizer.is_control(-1));
}

TEST(Tokenizer, UserDefinedTokensAreAlwaysMatchedAndShown) {
  ByteVocabulary tokens;
  const int32_t user = tokens.add("a b", TokenType::user_defined);
  const int32_t unused = tokens.add("zz", TokenType::unused);
  const Tokenizer tokenizer = make(tokens);
  EXPECT_EQ(tokenizer.encode("xa by"), Ids({'x', user, 'y'}));
  EXPECT_EQ(tokenizer.decode(Ids({'x', user})), "xa b");
  EXPECT_EQ(tokenizer.encode("zz", {.add_bos = std::nullopt, .parse_special = true}),
            Ids({'z', 'z'}));
  EXPECT_EQ(tokenizer.decode(Ids({unused})), "");
}

TEST(Tokenizer, BosFollowsTheFileUnlessToldOtherwise) {
  ByteVocabulary tokens;
  tokens.data.bos = tokens.data.eos = tokens.add("<e>", TokenType::control);
  const int32_t e = *tokens.data.bos;
  EXPECT_EQ(make(tokens).encode("a"), Ids({'a'}));
  EXPECT_EQ(make(tokens).encode("a", {.add_bos = true, .parse_special = false}), Ids({e, 'a'}));
  EXPECT_EQ(make(tokens).eos(), e);
  tokens.data.add_bos = true;
  EXPECT_TRUE(make(tokens).adds_bos());
  EXPECT_EQ(make(tokens).encode("a"), Ids({e, 'a'}));
  EXPECT_EQ(make(tokens).encode("a", {.add_bos = false, .parse_special = false}), Ids({'a'}));
}

TEST(Tokenizer, IdsOutsideTheVocabularyStandForNothing) {
  const Tokenizer tokenizer = make(ByteVocabulary());
  EXPECT_EQ(tokenizer.decode(Ids({'a', -1, 256, INT32_MAX, INT32_MIN, 'b'})), "ab");
  EXPECT_EQ(tokenizer.piece(256), "");
}

TEST(Tokenizer, AMissingByteNeedsTheUnknownToken) {
  ByteVocabulary tokens;
  tokens.data.tokens[0xFF] = "<unk>";
  tokens.data.token_types[0xFF] = static_cast<int32_t>(TokenType::unknown);
  const auto refused = Tokenizer::create(tokens.data);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::bad_model_file);
  EXPECT_NE(refused.error().detail.find("for byte 255"), std::string::npos);
  tokens.data.unknown = 0xFF;
  EXPECT_EQ(make(tokens).encode("a\xFF"), Ids({'a', 0xFF}));
  EXPECT_EQ(make(tokens).decode(Ids({'a', 0xFF})), "a");
}

TEST(Tokenizer, OutlivesItsDataAndMoves) {
  std::optional<Tokenizer> first;
  {
    ByteVocabulary tokens;
    tokens.merge("a", "b");
    tokens.add("<s>", TokenType::control);
    first = make(tokens);
  }
  const Tokenizer second = std::move(*first);
  first.reset();
  EXPECT_EQ(second.encode("ab<s>", {.add_bos = false, .parse_special = true}), Ids({256, 257}));
  EXPECT_EQ(second.find_piece("ab"), 256);
}

struct BadCase {
  const char* words;
  errc code;
  void (*spoil)(ByteVocabulary&);
};

TEST(Tokenizer, RefusesBadDataByKeyAndValue) {
  const BadCase cases[] = {
      {"tokenizer.ggml.model = 'bert', supported are gpt2 and llama", errc::unsupported_model,
       [](ByteVocabulary& v) { v.data.model = "bert"; }},
      {"tokenizer.ggml.pre = 'gpt2', supported with tokenizer.ggml.model = 'gpt2' are gpt-2, "
       "smollm, llama-bpe, llama3, llama-v3, qwen2",
       errc::unsupported_model, [](ByteVocabulary& v) { v.data.pre = "gpt2"; }},
      {"tokenizer.ggml.pre = ''", errc::unsupported_model,
       [](ByteVocabulary& v) { v.data.pre = ""; }},
      {"tokenizer.ggml.tokens has 0 entries", errc::bad_model_file,
       [](ByteVocabulary& v) { v.data.tokens.clear(), v.data.token_types.clear(); }},
      {"tokenizer.ggml.token_type has 255 entries, tokenizer.ggml.tokens has 256",
       errc::bad_model_file, [](ByteVocabulary& v) { v.data.token_types.pop_back(); }},
      {"tokenizer.ggml.token_type[7] = 0, allowed are 1 to 6", errc::bad_model_file,
       [](ByteVocabulary& v) { v.data.token_types[7] = 0; }},
      {"tokenizer.ggml.token_type[7] = 6 (byte)", errc::unsupported_model,
       [](ByteVocabulary& v) { v.data.token_types[7] = 6; }},
      {"tokenizer.ggml.tokens[256] = 'A': the same text as token 65", errc::bad_model_file,
       [](ByteVocabulary& v) { v.add("A", TokenType::normal); }},
      {"tokenizer.ggml.tokens[256] = '': an empty token", errc::bad_model_file,
       [](ByteVocabulary& v) { v.add("", TokenType::normal); }},
      {"tokenizer.ggml.tokens[256] = 'a b': a character outside", errc::bad_model_file,
       [](ByteVocabulary& v) { v.add("a b", TokenType::normal); }},
      {"tokenizer.ggml.tokens: no normal token 'A' for byte 65", errc::bad_model_file,
       [](ByteVocabulary& v) { v.data.token_types['A'] = 4; }},
      {"tokenizer.ggml.merges[0] = 'A B'", errc::bad_model_file,
       [](ByteVocabulary& v) { v.data.merges.push_back("A B"); }},
      {"tokenizer.ggml.bos_token_id = 256, allowed are 0 to 255", errc::bad_model_file,
       [](ByteVocabulary& v) { v.data.bos = 256; }},
      {"tokenizer.ggml.eos_token_id = -1, allowed are 0 to 255", errc::bad_model_file,
       [](ByteVocabulary& v) { v.data.eos = -1; }},
      {"tokenizer.ggml.unknown_token_id = 999", errc::bad_model_file,
       [](ByteVocabulary& v) { v.data.unknown = 999; }},
      {"tokenizer.ggml.padding_token_id = 999", errc::bad_model_file,
       [](ByteVocabulary& v) { v.data.padding = 999; }},
      {"tokenizer.ggml.bos_token_id is missing", errc::bad_model_file,
       [](ByteVocabulary& v) { v.data.add_bos = true; }},
  };
  for (const BadCase& bad : cases) {
    ByteVocabulary tokens;
    bad.spoil(tokens);
    const auto result = Tokenizer::create(tokens.data);
    ASSERT_FALSE(result) << bad.words;
    EXPECT_EQ(result.error().code, bad.code) << bad.words;
    EXPECT_NE(result.error().detail.find(bad.words), std::string::npos) << result.error().detail;
  }
}

TEST(Tokenizer, WithoutTypesEveryTokenIsNormal) {
  ByteVocabulary tokens;
  tokens.data.token_types.clear();
  EXPECT_EQ(make(tokens).encode("ab"), Ids({'a', 'b'}));
}

}  // namespace
}  // namespace tinyloop::engine
