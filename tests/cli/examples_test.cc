#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "program.h"

namespace tinyloop::test {
namespace {

Outcome run_example(const std::string& name, const std::vector<std::string>& arguments) {
  return run_program(TINYLOOP_EXAMPLES_DIR "/" + name, arguments);
}

TEST(Examples, NeedAModelThatExists) {
  for (const char* name :
       {"hello", "stream", "coroutine", "cancel", "shared_prompt", "draft_upgrade", "scaffolds"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(run_example(name, {}).exit_code, 2);
    const Outcome outcome = run_example(name, {"/no/such/model", "a"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.err.find("/no/such/model"), std::string::npos) << outcome.err;
  }
}

TEST(Examples, Hello) {
  const Outcome outcome = run_example("hello", {demo_model_path(), "Once upon a time"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("Once upon a time", 0), 0u) << outcome.out;
  EXPECT_GT(outcome.out.size(), 60u);
}

TEST(Examples, Stream) {
  const Outcome outcome = run_example("stream", {demo_model_path(), "Once upon a time"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("Once upon a time", 0), 0u) << outcome.out;
  EXPECT_NE(outcome.out.find("\n["), std::string::npos) << outcome.out;
}

TEST(Examples, CoroutineTellsOneTaleADepth) {
  const Outcome outcome = run_example("coroutine", {demo_model_path(), "Once upon a time"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* head : {"loops 1: Once", "loops 2: Once", "loops 4: Once", "loops 8: Once"}) {
    EXPECT_NE(outcome.out.find(head), std::string::npos) << outcome.out;
  }
}

TEST(Examples, CancelEndsEarlyInEveryWay) {
  const Outcome outcome = run_example("cancel", {demo_model_path(), "Once upon a time"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3u) << outcome.out;
  EXPECT_NE(lines[0].find("cancelled"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("deadline"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("cancelled"), std::string::npos) << lines[2];
}

TEST(Examples, SharedPromptIsComputedOnce) {
  const Outcome outcome = run_example("shared_prompt", {demo_model_path(), "Once upon a time"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto lines = lines_of(outcome.out);
  const auto figures = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.rfind("[8 prompts of ", 0) == 0;
  });
  ASSERT_NE(figures, lines.end()) << outcome.out;
  int prompts = 0, computed = 0, saved = 0;
  ASSERT_EQ(std::sscanf(figures->c_str(), "[8 prompts of %d tokens: %d computed, %d saved]",
                        &prompts, &computed, &saved),
            3)
      << *figures;
  EXPECT_GT(computed, 0);
  EXPECT_GT(saved, 0);
  EXPECT_EQ(saved % 8, 0);
  EXPECT_NE(outcome.out.find("[released: 0 bytes of pages in use]"), std::string::npos)
      << outcome.out;
}

TEST(Examples, DraftUpgradeGivesTheTextOfItsDepth) {
  const Outcome outcome = run_example("draft_upgrade", {demo_model_path(), "Once upon a time"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  for (const char* words : {"draft, loops 2: ", "upgrade, loops 8: ",
                            "from the beginning, loops 8: ", "[the same tokens]"}) {
    EXPECT_NE(outcome.out.find(words), std::string::npos) << words << "\n" << outcome.out;
  }
}

TEST(Examples, ScaffoldsAreFoundInEveryPrompt) {
  const Outcome outcome = run_example("scaffolds", {demo_model_path(), " A fox came by"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* words : {"tenants: 3 prefixes of ", " 12 hits, 0 misses, ",
                            "chat: 3 prefixes of ", " 2 hits, 1 misses, "}) {
    EXPECT_NE(outcome.out.find(words), std::string::npos) << words << "\n" << outcome.out;
  }
}

TEST(Demo, TellsEveryTaleAndChecksItself) {
  const Outcome outcome = run_program(
      TINYLOOP_DEMO, {"--model", demo_model_path(), "--callers", "9", "--max-tokens", "10"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);  // no terminal, no panel
  for (int caller = 1; caller <= 9; ++caller) {
    const std::string line = "caller  " + std::to_string(caller) + "  depth ";
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line;
  }
  for (const char* words :
       {"alone and among 9: the same 10 tokens", "0 bytes are left after unloading",
        "rows per pass", "time to first token", "queue time", "K/V page arena"}) {
    EXPECT_NE(outcome.out.find(words), std::string::npos) << words << "\n" << outcome.out;
  }
  EXPECT_EQ(outcome.out.find("  NO "), std::string::npos) << outcome.out;
}

TEST(Demo, FailsWithoutAModel) {
  const Outcome outcome = run_program(TINYLOOP_DEMO, {"--model", "/no/such/model"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("/no/such/model"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace tinyloop::test
