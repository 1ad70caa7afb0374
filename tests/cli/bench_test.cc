#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "program.h"

namespace tinyloop::test {
namespace {

using nlohmann::json;

// Tokens a second of `row`, worked out again from the runs' times.
double speed_of(const json& row, const std::string& kind, size_t runs) {
  std::vector<double> times_us = row.at(kind).at("times_us").get<std::vector<double>>();
  EXPECT_EQ(times_us.size(), runs);
  std::sort(times_us.begin(), times_us.end());
  EXPECT_GT(times_us.front(), 0.0);
  return row.at(kind).at("tokens").get<double>() * 1e6 / times_us.at(runs / 2);
}

TEST(Bench, MeasuresEveryDepthAndBatchSize) {
  const json result = json_on_model(
      "bench", {"--prompt-tokens", "8", "--gen-tokens", "4", "--decode-prompt", "5", "--batch",
                "1,3", "--loops", "1,2", "--repeat", "3", "--mode", "f32"});
  EXPECT_EQ(result.at("mode"), "f32");
  EXPECT_EQ(result.at("decode_prompt"), 5);
  ASSERT_EQ(result.at("results").size(), 4u);
  size_t i = 0;
  for (const int loops : {1, 2}) {
    for (const int batch : {1, 3}) {
      const json& row = result.at("results")[i++];
      EXPECT_EQ(row.at("loops"), loops);
      EXPECT_EQ(row.at("batch"), batch);
      EXPECT_EQ(row.at("prefill").at("tokens"), batch * 8);
      EXPECT_EQ(row.at("decode").at("tokens"), batch * 4);
      EXPECT_DOUBLE_EQ(row.at("prefill_tokens_per_s"), speed_of(row, "prefill", 3));
      EXPECT_DOUBLE_EQ(row.at("decode_tokens_per_s"), speed_of(row, "decode", 3));
      EXPECT_EQ(row.at("launches_per_token"), 0.0);  // nothing is launched on the CPU
    }
  }
}

TEST(Bench, PrintsAColumnForEachFigure) {
  const auto lines = lines_of(run_on_model("bench", {"--prompt-tokens", "8", "--gen-tokens", "2",
                                                     "--batch", "1", "--loops", "1"})
                                  .out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1], "loops  batch  prefill tok/s   decode tok/s   launches/token");
  std::istringstream row(lines[2]);
  std::vector<double> figures;
  for (double figure; row >> figure;) figures.push_back(figure);
  ASSERT_EQ(figures.size(), 5u);
  EXPECT_GT(figures[3], 0.0);
  EXPECT_EQ(lines[2].size(), lines[1].size()) << "columns stand under their names";
}

// Four passes are timed whatever the length of the prompt before them.
TEST(Bench, DecodeLeavesPrefillOut) {
  const auto decode_us = [](const char* prompt) {
    const json result = json_on_model(
        "bench", {"--prompt-tokens", "0", "--gen-tokens", "4", "--decode-prompt", prompt, "--batch",
                  "2", "--loops", "1", "--repeat", "5", "--prefill-budget", "2048"});
    const json& row = result.at("results").at(0);
    EXPECT_FALSE(row.contains("prefill"));
    EXPECT_TRUE(row.contains("launches_per_token"));
    const auto times = row.at("decode").at("times_us").get<std::vector<double>>();
    return *std::min_element(times.begin(), times.end());
  };
  // 900 times the prompt; attention to it makes the passes dearer, by far less than that.
  EXPECT_LT(decode_us("900"), 30 * decode_us("1"));
}

TEST(Bench, RefusesWrongNumbers) {
  expect_failure(run_on_model("bench", {"--batch", "1,0"}), 2, "--batch[1]: '0'");
  expect_failure(run_on_model("bench", {"--batch", "1024"}), 2, "--batch[0]: '1024'");
  expect_failure(run_on_model("bench", {"--loops", "99"}), 2, "--loops[0]: '99'");
  expect_failure(run_on_model("bench", {"--repeat", "0"}), 2, "--repeat: 0");
  expect_failure(run_on_model("bench", {"--prompt-tokens", "-1"}), 2, "--prompt-tokens: -1");
  expect_failure(run_on_model("bench", {"--decode-prompt", "0"}), 2, "--decode-prompt: 0");
  expect_failure(run_on_model("bench", {"--prompt-tokens", "0", "--gen-tokens", "0"}), 2,
                 "--gen-tokens: 0");
}

}  // namespace
}  // namespace tinyloop::test
