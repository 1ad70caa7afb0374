#include <gtest/gtest.h>

#include "program.h"

namespace tinyloop::test {
namespace {

using nlohmann::json;

TEST(Tokenize, KnownText) {
  EXPECT_EQ(json_on_model("tokenize", {"-p", "\"Where are you going?\" asked the king."}),
            json::parse(R"({"tokens": [2, 2035, 472, 302, 778, 390, 645, 263, 1490, 14]})"));
}

// What one run prints, the other takes.
TEST(Tokenize, RoundTrip) {
  for (const char* text :
       {"Once upon a time", " two  spaces\tand\nlines", "naïve café 日本", "a"}) {
    const Outcome ids = run_on_model("tokenize", {"-p", text});
    ASSERT_EQ(ids.exit_code, 0) << ids.err;
    const std::string list = ids.out.substr(0, ids.out.size() - 1);
    const Outcome back = run_on_model("tokenize", {"--decode", "--tokens", list});
    EXPECT_EQ(back.exit_code, 0) << back.err;
    EXPECT_EQ(back.out, std::string(text) + "\n");
  }
}

TEST(Tokenize, BytesThatAreNoTextComeBackExactly) {
  const std::string bytes = "caf\xc3 \xff";
  const Outcome ids = run_on_model("tokenize", {"-p", bytes});
  const std::string list = ids.out.substr(0, ids.out.size() - 1);
  EXPECT_EQ(run_on_model("tokenize", {"--decode", "--tokens", list}).out, bytes + "\n");
  // JSON has no way to say them: U+FFFD instead.
  const json text = json_on_model("tokenize", {"--decode", "--tokens", list});
  EXPECT_EQ(text.at("text"), "caf\xef\xbf\xbd \xef\xbf\xbd");
}

TEST(Tokenize, EmptyText) {
  EXPECT_EQ(json_on_model("tokenize", {"-p", ""}), json::parse(R"({"tokens": []})"));
}

}  // namespace
}  // namespace tinyloop::test
