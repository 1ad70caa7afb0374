// The tokenizer of the demo model, against ids made by the `tokenizers` package
// (tools/make_tokenizer_fixture.py), and the keys of a file one by one.
#include "engine/tokenizer_from_gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/engine/byte_vocabulary.h"

namespace tinyloop::engine {
namespace {

using Ids = std::vector<int32_t>;

const Tokenizer& demo() {
  static const Tokenizer tokenizer = [] {
    const auto file =
        GgufFile::open(TINYLOOP_SOURCE_DIR "/models/tinyloop-tales-16m-q4_1.gguf").value();
    return load_tokenizer(file).value().value();
  }();
  return tokenizer;
}

struct Case {
  std::string text;
  Ids ids, special;
  std::vector<size_t> pieces;
};

std::vector<Case> golden_cases() {
  std::ifstream file(TINYLOOP_SOURCE_DIR "/tests/golden/tokenizer/gpt2_demo.jsonl");
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    const auto entry = nlohmann::json::parse(line);
    Case& added = cases.emplace_back(Case{entry["text"], entry["ids"], {}, entry["pieces"]});
    added.special = entry.contains("special") ? entry["special"].get<Ids>() : added.ids;
  }
  return cases;
}

TEST(DemoTokenizer, GivesTheGoldenIds) {
  const auto cases = golden_cases();
  ASSERT_GT(cases.size(), 2000u);
  for (const Case& c : cases) {
    EXPECT_EQ(demo().encode(c.text), c.ids) << c.text;
    EXPECT_EQ(demo().encode(c.text, {.add_bos = std::nullopt, .parse_special = true}), c.special)
        << c.text;
    EXPECT_EQ(demo().decode(c.ids), c.text);
    EXPECT_EQ(demo().decode(c.special, {.show_special = true}), c.text);
  }
}

TEST(PreTokenizer, CutsTheGoldenTexts) {
  for (const Case& c : golden_cases()) {
    std::vector<size_t> pieces;
    for (std::string_view rest = c.text; !rest.empty(); rest.remove_prefix(pieces.back())) {
      pieces.push_back(gpt2_piece(rest));
    }
    EXPECT_EQ(pieces, c.pieces) << c.text;
  }
}

TEST(DemoTokenizer, Facts) {
  EXPECT_EQ(demo().vocab_size(), 8192);
  EXPECT_EQ(demo().eos(), 0);
  EXPECT_EQ(demo().bos(), 0);
  EXPECT_FALSE(demo().adds_bos());
  EXPECT_TRUE(demo().is_control(0));
  EXPECT_EQ(demo().piece(0), "<|endoftext|>");
  EXPECT_EQ(demo().token_bytes(0), "");
  for (int32_t id = 0; id < demo().vocab_size(); ++id) {
    EXPECT_EQ(demo().find_piece(demo().piece(id)), id);
  }
}

TEST(DemoTokenizer, RandomBytesRoundTrip) {
  std::mt19937 random(5);
  for (int round = 0; round < 10000; ++round) {
    std::string text(random() % 40, '\0');
    for (char& byte : text) {
      byte = static_cast<char>(random() % 3 ? random() % 256 : 'a' + random() % 26);
    }
    ASSERT_EQ(demo().decode(demo().encode(text)), text) << "round " << round;
  }
}

TEST(DemoTokenizer, SingleBytesAndCutCharactersRoundTrip) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    EXPECT_EQ(demo().decode(demo().encode(text)), text);
  }
  for (const std::string text : {"\xE2\x82", "a\xF0\x9F\x98z", "\xED\xA0\x80", "\xC0\xAF \xFF's"}) {
    EXPECT_EQ(demo().decode(demo().encode(text)), text);
  }
}

TEST(DemoTokenizer, AMegabyteWordIsQuick) {
  const std::string text(size_t{1} << 20, 'a');
  EXPECT_EQ(demo().decode(demo().encode(text)), text);
}

TEST(DemoTokenizer, ManyThreadsGetTheSameIds) {
  const auto cases = golden_cases();
  std::vector<std::thread> threads;
  std::vector<size_t> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < cases.size(); i += 2)
        wrong[t] += demo().encode(cases[i].text) != cases[i].ids;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<size_t>(4, 0));
}

// Writes the metadata of a GGUF file, version 3, without tensors.
class GgufText {
 public:
  void number(const std::string& key, uint32_t value) {
    begin(key, GgufType::u32);
    put(value);
  }
  void flag(const std::string& key, bool value) {
    begin(key, GgufType::boolean);
    put(static_cast<uint8_t>(value));
  }
  void string(const std::string& key, std::string_view value) {
    begin(key, GgufType::string);
    text(value);
  }
  void strings(const std::string& key, const std::vector<std::string_view>& values) {
    begin_array(key, GgufType::string, values.size());
    for (const auto value : values) text(value);
  }
  void integers(const std::string& key, const std::vector<int32_t>& values) {
    begin_array(key, GgufType::i32, values.size());
    for (const int32_t value : values) put(value);
  }
  void floats(const std::string& key, const std::vector<float>& values) {
    begin_array(key, GgufType::f32, values.size());
    for (const float value : values) put(value);
  }
  base::Result<std::optional<Tokenizer>> load() const {
    std::string bytes = "GGUF";
    const auto append = [&](auto value) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    append(uint32_t{3}), append(uint64_t{0}), append(count_);
    bytes += body_;
    const auto file = GgufFile::from_bytes(std::as_bytes(std::span(bytes)), "test.gguf").value();
    return load_tokenizer(file);
  }

 private:
  template <class T>
  void put(T value) {
    body_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) {
    put(uint64_t{value.size()});
    body_ += value;
  }
  void begin(const std::string& key, GgufType type) {
    ++count_;
    text(key);
    put(static_cast<uint32_t>(type));
  }
  void begin_array(const std::string& key, GgufType element, size_t size) {
    begin(key, GgufType::array);
    put(static_cast<uint32_t>(element));
    put(uint64_t{size});
  }

  std::string body_;
  uint64_t count_ = 0;
};

// A complete tokenizer, without the keys named in `left_out`.
GgufText small_file(const std::string& left_out = "") {
  test::ByteVocabulary tokens;
  tokens.merge("a", "b");
  tokens.data.eos = tokens.add("<e>", TokenType::control);
  GgufText file;
  const std::string prefix = "tokenizer.ggml.";
  const auto wanted = [&](const char* key) { return left_out != key; };
  file.string("general.architecture", "tinyloop");
  if (wanted("model")) file.string(prefix + "model", tokens.data.model);
  if (wanted("pre")) file.string(prefix + "pre", tokens.data.pre);
  if (wanted("tokens")) file.strings(prefix + "tokens", tokens.data.tokens);
  if (wanted("token_type")) file.integers(prefix + "token_type", tokens.data.token_types);
  if (wanted("merges")) file.strings(prefix + "merges", tokens.data.merges);
  if (wanted("eos_token_id")) {
    file.number(prefix + "eos_token_id", static_cast<uint32_t>(*tokens.data.eos));
  }
  return file;
}

void expect_refused(const GgufText& file, errc code, const std::string& words) {
  const auto result = file.load();
  ASSERT_FALSE(result) << words;
  EXPECT_EQ(result.error().code, code) << result.error().detail;
  EXPECT_NE(result.error().detail.find(words), std::string::npos) << result.error().detail;
  EXPECT_NE(result.error().detail.find("test.gguf"), std::string::npos) << result.error().detail;
}

TEST(TokenizerFromGguf, AFileWithoutATokenizerIsNoError) {
  const auto none = small_file("model").load();
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->has_value());
}

TEST(TokenizerFromGguf, ReadsEveryKey) {
  GgufText file = small_file();
  file.number("tokenizer.ggml.bos_token_id", 'B');
  file.number("tokenizer.ggml.padding_token_id", 'P');
  file.flag("tokenizer.ggml.add_bos_token", true);
  file.flag("tokenizer.ggml.add_eos_token", false);
  const auto loaded = file.load();
  ASSERT_TRUE(loaded) << loaded.error().detail;
  const Tokenizer& tokenizer = **loaded;
  EXPECT_EQ(tokenizer.encode("ab"), Ids({'B', 256}));
  EXPECT_EQ(tokenizer.eos(), 257);
  EXPECT_EQ(tokenizer.padding(), 'P');
  EXPECT_TRUE(tokenizer.is_control(257));
}

TEST(TokenizerFromGguf, RefusesMissingAndForeignKeys) {
  for (const std::string key : {"pre", "tokens", "merges"}) {
    expect_refused(small_file(key), errc::bad_model_file, "tokenizer.ggml." + key);
  }
  GgufText wrong_type = small_file("eos_token_id");
  wrong_type.string("tokenizer.ggml.eos_token_id", "0");
  expect_refused(wrong_type, errc::bad_model_file, "tokenizer.ggml.eos_token_id");
  GgufText too_large = small_file("eos_token_id");
  too_large.number("tokenizer.ggml.eos_token_id", 0xFFFFFFFFu);
  expect_refused(too_large, errc::bad_model_file, "tokenizer.ggml.eos_token_id = 4294967295");
  for (const std::string key : {"add_eos_token", "add_space_prefix"}) {
    GgufText foreign = small_file();
    foreign.flag("tokenizer.ggml." + key, true);
    expect_refused(foreign, errc::unsupported_model, "tokenizer.ggml." + key + " = true");
  }
}

// A complete SentencePiece tokenizer without byte tokens, without the keys named in `left_out`.
GgufText llama_file(const std::string& left_out = "") {
  GgufText file;
  const std::string prefix = "tokenizer.ggml.";
  const auto wanted = [&](const char* key) { return left_out != key; };
  if (wanted("model")) file.string(prefix + "model", "llama");
  if (wanted("tokens")) file.strings(prefix + "tokens", {"<unk>", "<s>", "\u2581", "a", "\u2581a"});
  if (wanted("scores")) file.floats(prefix + "scores", {0, 0, -3, -2, -1});
  if (wanted("token_type")) file.integers(prefix + "token_type", {2, 3, 1, 1, 1});
  return file;
}

TEST(TokenizerFromGguf, ReadsLlamaFiles) {
  GgufText file = llama_file();
  EXPECT_EQ((*file.load())->encode("a a"), Ids({4, 4}));
  EXPECT_EQ((*file.load())->encode("a?"), Ids({4, 0}));
  file.number("tokenizer.ggml.bos_token_id", 1);
  EXPECT_EQ((*file.load())->encode("a"), Ids({1, 4}));  // the default of the family
  file.flag("tokenizer.ggml.add_bos_token", false);
  file.flag("tokenizer.ggml.add_space_prefix", false);
  file.flag("tokenizer.ggml.remove_extra_whitespaces", false);
  file.string("tokenizer.ggml.pre", "default");
  file.strings("tokenizer.ggml.merges", {"no such"});  // not used
  EXPECT_EQ((*file.load())->encode("a a"), Ids({3, 4}));
}

TEST(TokenizerFromGguf, RefusesLlamaFilesByKey) {
  for (const std::string key : {"tokens", "scores"}) {
    expect_refused(llama_file(key), errc::bad_model_file, "tokenizer.ggml." + key);
  }
  expect_refused(llama_file("token_type"), errc::bad_model_file,
                 "tokenizer.ggml.tokens: no token of type 6 for byte 0, and no unknown token");
  GgufText spaces = llama_file();
  spaces.flag("tokenizer.ggml.remove_extra_whitespaces", true);
  expect_refused(spaces, errc::unsupported_model, "tokenizer.ggml.remove_extra_whitespaces = true");
  GgufText normalised = llama_file();
  normalised.integers("tokenizer.ggml.precompiled_charsmap", {1});
  expect_refused(normalised, errc::unsupported_model, "tokenizer.ggml.precompiled_charsmap");
  GgufText end = llama_file();
  end.flag("tokenizer.ggml.add_eos_token", true);
  expect_refused(end, errc::unsupported_model, "tokenizer.ggml.add_eos_token = true");
  GgufText other = llama_file("model");
  other.string("tokenizer.ggml.model", "t5");
  expect_refused(other, errc::unsupported_model,
                 "tokenizer.ggml.model = 't5', supported are gpt2 and llama");
}

}  // namespace
}  // namespace tinyloop::engine
