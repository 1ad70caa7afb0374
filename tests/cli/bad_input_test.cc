// Whatever is wrong with what the user gave: exit code 2 and one line that names it.
#include <gtest/gtest.h>

#include "program.h"

namespace tinyloop::test {
namespace {

using Arguments = std::vector<std::string>;

TEST(BadCommandLine, IsRefused) {
  expect_failure(run_cli({}), 2, "subcommand");
  expect_failure(run_cli({"transmogrify"}), 2, "transmogrify");
  expect_failure(run_cli({"generate", "-p", "a"}), 2, "--model");
  expect_failure(run_cli({"inspect"}), 2, "file");
  expect_failure(run_on_model("generate", {"-p", "a", "--frobnicate"}), 2, "--frobnicate");
  expect_failure(run_on_model("generate", {"-p", "a", "--loops", "many"}), 2, "--loops");
  expect_failure(run_on_model("generate", {"-p", "a", "--seed", "-1"}), 2, "--seed");
  expect_failure(run_on_model("generate", {"-p", "a", "--mode", "int4"}), 2, "--mode");
  expect_failure(run_on_model("generate", {"-p", "a", "--max-tokens", "99999999999"}), 2,
                 "--max-tokens");
}

TEST(BadCommandLine, NeedsExactlyOnePrompt) {
  for (const char* subcommand : {"generate", "score", "tokenize"}) {
    expect_failure(run_on_model(subcommand, {}), 2, "prompt: neither");
    expect_failure(run_on_model(subcommand, {"-p", "a", "--tokens", "1"}), 2, "prompt: both");
  }
}

TEST(BadCommandLine, TokenListsAreChecked) {
  expect_failure(run_on_model("generate", {"--tokens", "1,x"}), 2, "--tokens[1]: 'x'");
  expect_failure(run_on_model("generate", {"--tokens", "1,,2"}), 2, "--tokens[1]: ''");
  expect_failure(run_on_model("generate", {"--tokens", ""}), 2, "--tokens[0]: ''");
  expect_failure(run_on_model("score", {"--tokens", "1,99999999999"}), 2, "--tokens[1]");
  expect_failure(run_on_model("tokenize", {"--tokens", "1"}), 2, "--tokens");
  expect_failure(run_on_model("tokenize", {"--decode", "-p", "a"}), 2, "--decode");
}

TEST(BadRequest, NamesFieldValueAndBound) {
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"--loops", "99"}, "loops: 99, allowed: 1 to "},
      {{"--loops", "0"}, "loops: 0, allowed: 1 to "},
      {{"--max-tokens", "0"}, "max_tokens: 0"},
      {{"--max-tokens", "2048"}, "max_seq_len 2048"},
      {{"--temperature", "-0.5"}, "temperature: -0.5"},
      {{"--temperature", "nan"}, "temperature: nan"},
      {{"--top-k", "-3"}, "top_k: -3"},
      {{"--top-p", "0"}, "top_p: 0"},
      {{"--min-p", "1"}, "min_p: 1"},
      {{"--repetition-penalty", "0"}, "repetition_penalty: 0"},
      {{"--logprobs", "65"}, "logprobs: 65, allowed: 0 to 64"},
      {{"--cache-window", "-1"}, "cache_window: -1"},
      {{"--stop", ""}, "stop_sequences[0]"},
      {{"--max-seq-len", "0"}, "max_seq_len: 0"},
      {{"--prefill-chunk", "4096"}, "prefill_chunk: 4096"},
      {{"--threads", "257"}, "cpu_threads"},
  };
  for (const auto& [arguments, words] : cases) {
    SCOPED_TRACE(arguments[0] + " " + arguments[1]);
    Arguments all = {"-p", "a"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    expect_failure(run_on_model("generate", all), 2, words);
  }
}

TEST(BadRequest, PromptsAreChecked) {
  expect_failure(run_on_model("generate", {"-p", ""}), 2, "prompt: empty");
  expect_failure(run_on_model("generate", {"--tokens", "1,8192"}), 2, "prompt[1]: 8192");
  expect_failure(run_on_model("score", {"--tokens", "-7"}), 2, "tokens[0]: -7");
  expect_failure(run_on_model("score", {"-p", ""}), 2, "tokens: empty");
  expect_failure(run_on_model("score", {"-p", "a", "--loops", "99"}), 2, "loops: 99");
}

TEST(BadModelFile, IsNamed) {
  const TemporaryFile empty;
  const TemporaryFile text("this is no model file, but long enough to have a header");
  const std::string missing = empty.path() + ".missing";
  for (const char* subcommand : {"generate", "score", "tokenize"}) {
    SCOPED_TRACE(subcommand);
    expect_failure(run_cli({subcommand, "-m", missing, "-p", "a"}), 2, missing);
    expect_failure(run_cli({subcommand, "-m", empty.path(), "-p", "a"}), 2, empty.path());
    expect_failure(run_cli({subcommand, "-m", text.path(), "-p", "a"}), 2, "magic 'this'");
  }
  expect_failure(run_cli({"bench", "-m", missing}), 2, missing);
}

TEST(Failure, WhenStdoutCannotBeWritten) {
  const Outcome outcome = run_cli({"tokenize", "-m", demo_model_path(), "-p", "a"}, "/dev/full");
  expect_failure(outcome, 1, "stdout");
}

}  // namespace
}  // namespace tinyloop::test
