#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "program.h"

namespace tinyloop::test {
namespace {

using nlohmann::json;

// The lines that `tinyloop bench --json` writes: what was measured on, then a figure each.
std::vector<json> figures_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Outcome outcome = run_on_model("bench", arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  std::vector<json> figures;
  for (const std::string& line : lines_of(outcome.out)) figures.push_back(json::parse(line));
  return figures;
}

// Tokens a second of `row`, worked out again from the runs' times.
double speed_of(const json& row, size_t runs) {
  auto times_us = row.at("times_us").get<std::vector<double>>();
  EXPECT_EQ(times_us.size(), runs);
  std::sort(times_us.begin(), times_us.end());
  EXPECT_GT(times_us.front(), 0.0);
  return row.at("tokens").get<double>() * 1e6 / times_us.at(runs / 2);
}

TEST(Bench, MeasuresEveryCombination) {
  const auto lines = figures_of({"--prompt-tokens", "8,9", "--gen-tokens", "4", "--contexts", "5,7",
                                 "--callers", "1,3", "--loops", "1,2", "--repeat", "3", "--mode",
                                 "f32", "--sampling", "greedy", "--sampling", "temperature=1"});
  ASSERT_EQ(lines.size(), 1u + 2 * (4 + 8));
  EXPECT_EQ(lines[0].at("mode"), "f32");
  EXPECT_EQ(lines[0].at("repeat"), 3);
  size_t i = 0;
  for (const int loops : {1, 2}) {
    for (const int tokens : {8, 9}) {
      for (const int prompts : {1, 3}) {
        const json& row = lines[++i];
        EXPECT_EQ(row.at("kind"), "prefill");
        EXPECT_EQ(row.at("loops"), loops);
        EXPECT_EQ(row.at("prompts"), prompts);
        EXPECT_EQ(row.at("tokens"), prompts * tokens);
        EXPECT_DOUBLE_EQ(row.at("tokens_per_s"), speed_of(row, 3));
      }
    }
    for (const int context : {5, 7}) {
      for (const int callers : {1, 3}) {
        for (const char* sampling : {"greedy", "temperature=1"}) {
          const json& row = lines[++i];
          EXPECT_EQ(row.at("kind"), "decode");
          EXPECT_EQ(row.at("loops"), loops);
          EXPECT_EQ(row.at("context"), context);
          EXPECT_EQ(row.at("sampling"), sampling);
          EXPECT_EQ(row.at("tokens"), callers * 4);
          EXPECT_DOUBLE_EQ(row.at("tokens_per_s"), speed_of(row, 3));
          EXPECT_EQ(row.at("launches_per_token"), 0.0);  // nothing is launched on the CPU
        }
      }
    }
  }
}

TEST(Bench, PrintsAColumnForEachFigure) {
  const auto lines = lines_of(run_on_model("bench", {"--prompt-tokens", "8", "--gen-tokens", "2",
                                                     "--callers", "1", "--loops", "1"})
                                  .out);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[1], "prefill");
  EXPECT_EQ(lines[4], "decode");
  for (const size_t header : {2u, 5u}) {
    std::istringstream row(lines[header + 1]);
    double speed = 0;
    for (int i = 0; i < (header == 2 ? 4 : 5); ++i) row >> speed;
    EXPECT_GT(speed, 0.0);
    EXPECT_EQ(lines[header].find("tok/s") + 5, lines[header + 1].find('.') + 2)
        << "columns end under their names";
  }
}

// Four passes are timed whatever the length of the context before them, and however small the
// budget of prompt rows is.
TEST(Bench, DecodeLeavesPrefillOut) {
  const auto decode_us = [](const char* context) {
    const auto lines =
        figures_of({"--prompt-tokens", "0", "--gen-tokens", "4", "--contexts", context, "--callers",
                    "2", "--loops", "1", "--repeat", "5", "--prefill-budget", "1"});
    EXPECT_EQ(lines.size(), 2u);
    EXPECT_EQ(lines.at(0).at("prefill_budget"), 2 + 128);
    const auto times = lines.at(1).at("times_us").get<std::vector<double>>();
    return *std::min_element(times.begin(), times.end());
  };
  // 900 times the context; attention to it makes the passes dearer, by far less than that.
  EXPECT_LT(decode_us("900"), 30 * decode_us("1"));
}

// Kinds and the line's own options, and each caller its own kind.
TEST(Bench, SamplesAsAsked) {
  const std::vector<std::string> quick = {"--prompt-tokens", "0", "--gen-tokens", "2",
                                          "--callers",       "2", "--loops",      "1",
                                          "--repeat",        "1"};
  const auto sampling_of = [&quick](const std::vector<std::string>& more) {
    auto arguments = quick;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return figures_of(arguments).at(1).at("sampling").get<std::string>();
  };
  EXPECT_EQ(sampling_of({}), "greedy");
  EXPECT_EQ(sampling_of({"--temperature", "0.8", "--top-p=0.95"}), "temperature=0.8,top-p=0.95");
  EXPECT_EQ(sampling_of({"--sampling", "greedy+temperature=0.8,top-k=40,min-p=0.1"}),
            "greedy+temperature=0.8,top-k=40,min-p=0.1");
  // The second caller's kind reaches the model, over what the line says.
  auto arguments = quick;
  for (const char* more : {"--temperature", "-1", "--sampling", "greedy+top-k=4"}) {
    arguments.emplace_back(more);
  }
  const Outcome outcome = run_on_model("bench", arguments);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("temperature"), std::string::npos) << outcome.err;
}

TEST(Bench, ServesRequestsThatComeAtRandom) {
  const std::vector<std::string> arguments = {"--rate",          "200,400", "--requests",   "20",
                                              "--prompt-tokens", "4,8",     "--gen-tokens", "3,5",
                                              "--loops",         "1",       "--seed",       "3"};
  const auto lines = figures_of(arguments);
  ASSERT_EQ(lines.size(), 3u);
  for (const size_t i : {1u, 2u}) {
    const json& row = lines[i];
    EXPECT_EQ(row.at("kind"), "serving");
    EXPECT_EQ(row.at("rate"), i == 1 ? 200.0 : 400.0);
    EXPECT_EQ(row.at("requests"), 20);
    EXPECT_EQ(row.at("sampling"), "seed=3");
    EXPECT_GT(row.at("tokens_per_s"), 0.0);
    EXPECT_GT(row.at("first_token_us").at("p50"), 0.0);
    EXPECT_GE(row.at("first_token_us").at("p99"), row.at("first_token_us").at("p50"));
    EXPECT_GE(row.at("interval_us").at("p99"), row.at("interval_us").at("p50"));
  }
  // The same requests at the same times of their own: only the clock runs faster.
  EXPECT_NEAR(lines[2].at("asked_tokens_per_s").get<double>(),
              2 * lines[1].at("asked_tokens_per_s").get<double>(), 1e-6);
  EXPECT_EQ(figures_of(arguments)[1].at("asked_tokens_per_s"), lines[1].at("asked_tokens_per_s"));
}

TEST(Bench, RefusesWrongNumbers) {
  const auto refuses = [](const std::vector<std::string>& arguments, const char* words) {
    expect_failure(run_on_model("bench", arguments), 2, words);
  };
  refuses({"--callers", "1,0"}, "--callers[1]: '0'");
  refuses({"--callers", "1024"}, "--callers[0]: '1024'");
  refuses({"--loops", "99"}, "--loops[0]: '99'");
  refuses({"--repeat", "0"}, "--repeat: 0");
  refuses({"--prompt-tokens", "-1"}, "--prompt-tokens[0]: '-1'");
  refuses({"--contexts", "0"}, "--contexts[0]: '0'");
  refuses({"--prompt-tokens", "0", "--gen-tokens", "0"}, "--gen-tokens: 0");
  refuses({"--rate", "1,x"}, "--rate[1]: 'x'");
  refuses({"--rate", "1", "--gen-tokens", "0"}, "--gen-tokens: 0");
  refuses({"--requests", "4"}, "--requests: 4");
  refuses({"--sampling", "greedy+top-q=3"}, "--sampling: 'top-q=3'");
  refuses({"--sampling", ","}, "--sampling: ','");
}

}  // namespace
}  // namespace tinyloop::test
