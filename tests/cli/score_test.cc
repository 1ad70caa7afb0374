#include <gtest/gtest.h>

#include <fstream>

#include "program.h"

namespace tinyloop::test {
namespace {

using nlohmann::json;

TEST(Score, MatchesTheReference) {
  const json golden = json::parse(std::ifstream(golden_path()));
  size_t checked = 0;
  for (const json& item : golden.at("cases")) {
    if (!item.contains("score_logprobs") || item.at("score_logprobs").empty()) continue;
    if (item.at("loops") != 4) continue;
    const json result =
        json_on_model("score", {"-p", item.at("prompt"), "--loops", "4", "--mode", "f32"});
    const auto found = result.at("logprobs").get<std::vector<double>>();
    const auto expected = item.at("score_logprobs").get<std::vector<double>>();
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(found.size() + 1, item.at("tokens").size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-3);
    ++checked;
  }
  EXPECT_GE(checked, 3u);
}

TEST(Score, OfOneTokenIsEmpty) {
  EXPECT_EQ(json_on_model("score", {"--tokens", "65"}), json::parse(R"({"logprobs": []})"));
}

TEST(Score, PlainOutputHasOneLineAToken) {
  const Outcome outcome = run_on_model("score", {"--tokens", "65,12,281"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].rfind("12 -", 0), 0u) << lines[0];
  EXPECT_EQ(lines[1].rfind("281 -", 0), 0u) << lines[1];
  EXPECT_NE(lines[2].find("perplexity"), std::string::npos) << lines[2];
}

}  // namespace
}  // namespace tinyloop::test
