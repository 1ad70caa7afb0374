#include "engine/bpe.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>

#include "base/error.h"
#include "tests/engine/byte_vocabulary.h"

namespace tinyloop::engine {
namespace {

using test::ByteVocabulary;

// The definition, word for word: look for the pair that stands earliest in the list, merge its
// leftmost occurrence, begin again.
std::vector<std::string> naive_bpe(std::vector<std::string> word,
                                   const std::vector<std::string_view>& merges) {
  for (;;) {
    size_t best_rank = merges.size(), best = 0;
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const std::string pair = word[i] + " " + word[i + 1];
      const auto rank =
          static_cast<size_t>(std::find(merges.begin(), merges.end(), pair) - merges.begin());
      if (rank < best_rank) best_rank = rank, best = i;
    }
    if (best_rank == merges.size()) return word;
    word[best] += word[best + 1];
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::vector<int32_t> byte_ids(std::string_view word) {
  return {word.begin(), word.end()};
}

std::vector<std::string> merged(const Vocabulary& vocabulary, const Bpe& bpe,
                                std::string_view word) {
  Bpe::Workspace workspace;
  std::vector<int32_t> ids;
  bpe.merge(byte_ids(word), workspace, ids);
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.emplace_back(vocabulary.text(id));
  return texts;
}

TEST(Bpe, EarlierMergesWinAndTiesGoLeft) {
  ByteVocabulary tokens;
  tokens.merge("b", "c");
  tokens.merge("a", "b");
  tokens.merge("a", "a");
  tokens.merge("aa", "bc");
  const auto vocabulary = Vocabulary::byte_level(tokens.data);
  const Bpe bpe(vocabulary, tokens.data.merges);
  using Texts = std::vector<std::string>;
  EXPECT_EQ(merged(vocabulary, bpe, ""), Texts());
  EXPECT_EQ(merged(vocabulary, bpe, "x"), Texts({"x"}));
  EXPECT_EQ(merged(vocabulary, bpe, "abc"), Texts({"a", "bc"}));
  EXPECT_EQ(merged(vocabulary, bpe, "aab"), Texts({"a", "ab"}));
  EXPECT_EQ(merged(vocabulary, bpe, "aaa"), Texts({"aa", "a"}));
  EXPECT_EQ(merged(vocabulary, bpe, "aabc"), Texts({"aabc"}));
  EXPECT_EQ(merged(vocabulary, bpe, "aaabc"), Texts({"aa", "a", "bc"}));
}

TEST(Bpe, EqualsTheDefinitionOnRandomMergeLists) {
  std::mt19937 random(1);
  const std::string letters = "abc";
  for (int round = 0; round < 60; ++round) {
    ByteVocabulary tokens;
    std::vector<std::string> known = {"a", "b", "c"};
    std::set<std::string> used;
    for (int i = 0; i < 30; ++i) {
      const std::string left = known[random() % known.size()],
                        right = known[random() % known.size()];
      if (!used.insert(left + " " + right).second) continue;
      tokens.merge(left, right);
      known.push_back(left + right);
    }
    const auto vocabulary = Vocabulary::byte_level(tokens.data);
    const Bpe bpe(vocabulary, tokens.data.merges);
    for (int i = 0; i < 60; ++i) {
      std::vector<std::string> word(random() % 50);
      std::string text;
      for (auto& symbol : word) text += symbol = letters[random() % letters.size()];
      ASSERT_EQ(merged(vocabulary, bpe, text), naive_bpe(word, tokens.data.merges)) << text;
    }
  }
}

TEST(Bpe, AMegabyteOfOneLetterIsQuick) {
  ByteVocabulary tokens;
  std::string part = "a";
  int32_t longest = 0;
  for (int i = 0; i < 4; ++i, part += part) longest = tokens.merge(part, part);
  const auto vocabulary = Vocabulary::byte_level(tokens.data);
  const Bpe bpe(vocabulary, tokens.data.merges);
  const std::vector<int32_t> word((size_t{1} << 20) + 1, 'a');
  Bpe::Workspace workspace;
  std::vector<int32_t> ids;
  bpe.merge(word, workspace, ids);  // quadratic work would be 10^12 steps
  std::vector<int32_t> expected(size_t{1} << 16, longest);
  expected.push_back('a');
  EXPECT_EQ(ids, expected);
}

void expect_refused(const ByteVocabulary& tokens, std::string_view words) {
  const auto vocabulary = Vocabulary::byte_level(tokens.data);
  try {
    const Bpe bpe(vocabulary, tokens.data.merges);
    FAIL() << "accepted: " << words;
  } catch (const base::Failure& failure) {
    EXPECT_EQ(failure.error().code, errc::bad_model_file);
    EXPECT_NE(failure.error().detail.find(words), std::string::npos) << failure.error().detail;
  }
}

TEST(Bpe, RefusesBadMergesByIndexAndText) {
  for (const char* text : {"", " ", "ab", "a ", " b", "a b c", "a  b"}) {
    ByteVocabulary tokens;
    tokens.merge("x", "y");
    tokens.data.merges.push_back(text);
    expect_refused(tokens, "tokenizer.ggml.merges[1] = '" + std::string(text) + "'");
  }
  const auto refuse = [](const char* text, std::string_view words) {
    ByteVocabulary tokens;
    tokens.add("<c>", TokenType::control);
    tokens.merge("x", "y");
    tokens.data.merges.push_back(text);
    expect_refused(tokens, words);
  };
  refuse("qq y", "left part 'qq' is not in tokenizer.ggml.tokens");
  refuse("y qq", "right part 'qq' is not in tokenizer.ggml.tokens");
  refuse("y x", "result 'yx' is not in tokenizer.ggml.tokens");
  refuse("<c> x", "left part '<c>' has tokenizer.ggml.token_type 3, allowed are 1 and 4");
  refuse("x y", "the same as merge 0");
}

}  // namespace
}  // namespace tinyloop::engine
