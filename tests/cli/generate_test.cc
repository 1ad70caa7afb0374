#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "program.h"

namespace tinyloop::test {
namespace {

using nlohmann::json;
using Arguments = std::vector<std::string>;

// Cases of the golden file for one prompt, one a depth.
std::vector<json> golden_cases(const std::string& prompt) {
  const json golden = json::parse(std::ifstream(golden_path()));
  std::vector<json> cases;
  for (const json& item : golden.at("cases")) {
    if (item.at("prompt") == prompt && item.contains("greedy")) cases.push_back(item);
  }
  return cases;
}

// Tokens that no rounding can change: those before the first near tie.
size_t certain_tokens(const json& golden) {
  constexpr double kNearTie = 0.05;
  const auto margins = golden.at("greedy_margins").get<std::vector<double>>();
  size_t count = 0;
  while (count < margins.size() && margins[count] >= kNearTie) ++count;
  return count;
}

TEST(Generate, MatchesTheReferenceAtEveryDepth) {
  const auto cases = golden_cases("a");
  ASSERT_EQ(cases.size(), 4u);
  for (const json& golden : cases) {
    const std::string loops = std::to_string(golden.at("loops").get<int>());
    SCOPED_TRACE("loops " + loops);
    const size_t count = certain_tokens(golden);
    ASSERT_GE(count, 5u);
    const json result = json_on_model(
        "generate", {"-p", "a", "--loops", loops, "--max-tokens", std::to_string(count)});
    const auto expected = golden.at("greedy").get<std::vector<int>>();
    EXPECT_EQ(result.at("tokens").get<std::vector<int>>(),
              std::vector<int>(expected.begin(), expected.begin() + std::ptrdiff_t(count)));
    EXPECT_EQ(result.at("prompt_tokens"), golden.at("tokens"));
  }
}

TEST(Generate, JsonHasTheDocumentedFields) {
  const json result = json_on_model("generate", {"-p", "a", "--loops", "2", "--max-tokens", "4"});
  const std::set<std::string> expected = {"prompt_tokens", "tokens", "text",
                                          "finish_reason", "loops",  "timings"};
  std::set<std::string> found;
  for (const auto& item : result.items()) found.insert(item.key());
  EXPECT_EQ(found, expected);
  EXPECT_EQ(result.at("loops"), 2);
  EXPECT_EQ(result.at("finish_reason"), "max_tokens");
  EXPECT_EQ(result.at("tokens").size(), 4u);
  EXPECT_GT(result.at("timings").at("prefill_us"), 0.0);
  EXPECT_GT(result.at("timings").at("decode_us"), 0.0);
  EXPECT_GE(result.at("timings").at("queue_us"), 0.0);
}

TEST(Generate, DepthDefaultsToTheFiles) {
  const json file = json::parse(run_cli({"inspect", demo_model_path(), "--json"}).out);
  const json result = json_on_model("generate", {"-p", "a", "--max-tokens", "1"});
  EXPECT_EQ(result.at("loops"), file.at("default_iterations"));
}

TEST(Generate, TextAndTokensAreTheSamePrompt) {
  const json text = json_on_model("generate", {"-p", "a", "--max-tokens", "3"});
  const json tokens = json_on_model("generate", {"--tokens", "65", "--max-tokens", "3"});
  EXPECT_EQ(text.at("tokens"), tokens.at("tokens"));
  EXPECT_EQ(text.at("text"), tokens.at("text"));
}

TEST(Generate, PlainOutputIsTheTextAlone) {
  const Arguments arguments = {"-p", "a", "--max-tokens", "6", "--loops", "8"};
  const std::string text = json_on_model("generate", arguments).at("text");
  EXPECT_FALSE(text.empty());
  const Outcome outcome = run_on_model("generate", arguments);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, text + "\n");
  EXPECT_EQ(outcome.err, "");
}

TEST(Generate, SeedsDecideWhatIsDrawn) {
  const auto draw = [](const std::string& seed) {
    return json_on_model("generate", {"-p", "Once upon a time", "--max-tokens", "12", "--loops",
                                      "1", "--temperature", "1.5", "--seed", seed})
        .at("tokens");
  };
  EXPECT_EQ(draw("7"), draw("7"));
  EXPECT_NE(draw("7"), draw("8"));
}

TEST(Generate, BiasesAndPenaltiesChangeWhatIsChosen) {
  const auto tokens = [](Arguments more) {
    Arguments arguments = {"-p", "a", "--max-tokens", "12", "--ignore-eos"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_on_model("generate", arguments).at("tokens").get<std::vector<int>>();
  };
  EXPECT_EQ(tokens({"--logit-bias", "7:1000"}), std::vector<int>(12, 7));
  // Each choice of 7 takes 2 off its bias: after five it has fallen behind 9.
  const auto both = tokens({"--logit-bias", "7:1000", "--logit-bias", "9:990",
                            "--frequency-penalty", "2", "--min-tokens", "3"});
  EXPECT_GE(std::count(both.begin(), both.end(), 9), 1);
  EXPECT_EQ(std::count(both.begin(), both.end(), 7) + std::count(both.begin(), both.end(), 9), 12);
}

TEST(Generate, ATraceHasAChunkForEachIteration) {
  const TemporaryFile file;
  json_on_model("generate",
                {"-p", "a", "--loops", "2", "--max-tokens", "3", "--trace", file.path()});
  const json trace = json::parse(file.contents());
  size_t chunks = 0;
  for (const json& event : trace.at("traceEvents")) chunks += event.value("cat", "") == "chunk";
  EXPECT_EQ(chunks, 6u);
  expect_failure(run_on_model("generate", {"-p", "a", "--trace", "/no/such/folder/trace"}), 2,
                 "--trace: /no/such/folder/trace");
}

// Options that must not change a bit.
TEST(Generate, ThreadsAndChunksChangeNothing) {
  const Arguments plain = {"-p",           "The old fisherman looked at the sea and said,",
                           "--max-tokens", "8",
                           "--logprobs",   "3"};
  Arguments other = plain;
  other.insert(other.end(), {"--threads", "1", "--prefill-chunk", "3"});
  json a = json_on_model("generate", plain), b = json_on_model("generate", other);
  a.erase("timings");
  b.erase("timings");
  EXPECT_EQ(a, b);
}

TEST(Generate, LogprobsAreThoseOfTheChosenAndTheMostLikely) {
  const json result = json_on_model(
      "generate", {"-p", "a", "--max-tokens", "3", "--logprobs", "2", "--loops", "8"});
  ASSERT_EQ(result.at("logprobs").size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const json& position = result.at("logprobs")[i];
    EXPECT_EQ(position.at("token"), result.at("tokens")[i]);
    ASSERT_EQ(position.at("top").size(), 2u);
    EXPECT_EQ(position.at("top")[0].at("token"), position.at("token"));  // greedy
    EXPECT_GE(position.at("top")[0].at("logprob"), position.at("top")[1].at("logprob"));
    EXPECT_LT(position.at("logprob"), 0.0);
  }
}

TEST(Generate, StopsBeforeAStopText) {
  const Arguments arguments = {"-p", "a",      "--loops", "8",      "--max-tokens",
                               "40", "--stop", "zebra",   "--stop", "girls"};
  const json result = json_on_model("generate", arguments);
  EXPECT_EQ(result.at("finish_reason"), "stop_sequence");
  EXPECT_EQ(result.at("text"), ", and the two ");
}

TEST(Generate, StreamGivesTheSameText) {
  const Arguments arguments = {"-p", "a", "--loops", "8", "--max-tokens", "12"};
  const json whole = json_on_model("generate", arguments);
  Arguments stream = arguments;
  stream.push_back("--stream");
  const Outcome plain = run_on_model("generate", stream);
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_EQ(plain.out, whole.at("text").get<std::string>() + "\n");

  stream.push_back("--json");
  const Outcome outcome = run_on_model("generate", stream);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto lines = lines_of(outcome.out);
  ASSERT_FALSE(lines.empty());
  std::string text;
  std::vector<int> tokens;
  for (size_t i = 0; i < lines.size(); ++i) {
    const json chunk = json::parse(lines[i]);
    text += chunk.at("text");
    for (const int token : chunk.at("tokens")) tokens.push_back(token);
    EXPECT_EQ(chunk.contains("summary"), i + 1 == lines.size());
  }
  EXPECT_EQ(text, whole.at("text"));
  EXPECT_EQ(tokens, whole.at("tokens").get<std::vector<int>>());
  const json summary = json::parse(lines.back()).at("summary");
  EXPECT_EQ(summary.at("finish_reason"), "max_tokens");
  EXPECT_EQ(summary.at("generated_tokens"), 12);
  EXPECT_EQ(summary.at("prompt_tokens"), 1);
  EXPECT_EQ(summary.at("loops"), 8);
}

TEST(Generate, AWindowOfOnePositionChangesTheText) {
  const Arguments all = {"-p", "The old fisherman looked at the sea and said,", "--max-tokens",
                         "8"};
  Arguments windowed = all;
  windowed.insert(windowed.end(), {"--cache-window", "1"});
  EXPECT_NE(json_on_model("generate", all).at("tokens"),
            json_on_model("generate", windowed).at("tokens"));
}

// Bytes that are no text: the prompt is taken as it is, and the JSON stays JSON.
TEST(Generate, AnyBytesMayBeThePrompt) {
  const json result = json_on_model("generate", {"-p", "\xff\xfe caf\xc3", "--max-tokens", "4"});
  EXPECT_GE(result.at("prompt_tokens").size(), 4u);
  EXPECT_EQ(result.at("tokens").size(), 4u);
}

}  // namespace
}  // namespace tinyloop::test
