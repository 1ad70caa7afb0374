#include <gtest/gtest.h>

#include "program.h"

namespace tinyloop::test {
namespace {

Outcome run_example(const std::string& name, const std::vector<std::string>& arguments) {
  return run_program(TINYLOOP_EXAMPLES_DIR "/" + name, arguments);
}

TEST(Examples, NeedAModelThatExists) {
  for (const char* name : {"hello", "stream", "coroutine", "cancel"}) {
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
