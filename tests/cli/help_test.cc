#include <gtest/gtest.h>

#include "program.h"

namespace tinyloop::test {
namespace {

TEST(Help, NamesTheSubcommands) {
  const Outcome outcome = run_cli({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  for (const char* name : {"generate", "score", "tokenize", "inspect", "bench"}) {
    EXPECT_NE(outcome.out.find(name), std::string::npos) << name;
  }
}

TEST(Help, OfASubcommandNamesItsOptions) {
  const Outcome outcome = run_cli({"generate", "--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* name :
       {"--model",       "--prompt",  "--tokens",      "--loops",         "--max-tokens",
        "--temperature", "--top-k",   "--top-p",       "--min-p",         "--repetition-penalty",
        "--seed",        "--stop",    "--ignore-eos",  "--logprobs",      "--cache-window",
        "--mode",        "--threads", "--max-seq-len", "--prefill-chunk", "--stream",
        "--json",        "--trace"}) {
    EXPECT_NE(outcome.out.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace tinyloop::test
