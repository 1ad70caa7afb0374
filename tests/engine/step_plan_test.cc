#include "engine/step_plan.h"

#include <gtest/gtest.h>

#include <limits>

namespace tinyloop::engine {
namespace {

StepPlan some_plan() {
  StepPlan plan;
  plan.pass = std::numeric_limits<uint64_t>::max();
  plan.chunks.push_back({.sequence = uint64_t{1} << 63,
                         .rows = 2,
                         .first_position = 1000,
                         .depth = 4,
                         .iteration = ChunkStep::kHeld,
                         .window = 32,
                         .enters = true,
                         .leaves = true,
                         .logit_rows = 1,
                         .first_row = 0,
                         .pages = 1,
                         .prelude_table = 3,
                         .coda_table = 5,
                         .loop_table = 4});
  plan.chunks.push_back({.sequence = 1});
  plan.tokens = {5, std::numeric_limits<int32_t>::max()};
  plan.slots = {0, 1};
  plan.copies = {{3, 7, 9}};
  plan.prelude_pages = {-1, 7};
  plan.coda_pages = {4};
  plan.loop_pages = {8};
  return plan;
}

TEST(StepPlan, ExtremesParseBack) {
  for (const StepPlan& plan : {some_plan(), StepPlan{}}) {
    const std::string line = print_plan(plan);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto parsed = parse_plan(line);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().detail;
    EXPECT_EQ(*parsed, plan);
  }
}

// Replaces `from` in the line of some_plan(), and expects an error that names `culprit`.
void expect_refused(const std::string& from, const std::string& to, const std::string& culprit) {
  std::string line = print_plan(some_plan());
  const size_t at = line.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  line.replace(at, from.size(), to);
  const auto parsed = parse_plan(line);
  ASSERT_TRUE(parsed.has_error()) << line;
  EXPECT_EQ(parsed.error().code, errc::invalid_argument);
  EXPECT_NE(parsed.error().detail.find(culprit), std::string::npos) << parsed.error().detail;
}

TEST(StepPlan, NumbersMustFit) {
  for (const char* number : {"1e76", "4294967296", "-2147483649", "1.5", "\"1\"", "null", "[]"}) {
    expect_refused("\"first_position\":1000", std::string("\"first_position\":") + number,
                   "first_position: not an integer of 32 bits");
    expect_refused("\"tokens\":[5", std::string("\"tokens\":[") + number,
                   "tokens: not an integer of 32 bits");
  }
  for (const char* number : {"-1", "18446744073709551616"}) {
    expect_refused("\"pass\":18446744073709551615", std::string("\"pass\":") + number,
                   "pass: not an integer of 64 bits");
  }
  expect_refused("\"enters\":true", "\"enters\":1", "boolean");
}

TEST(StepPlan, FieldsMustBeThere) {
  expect_refused("\"depth\"", "\"deep\"", "depth");
  expect_refused("\"slots\"", "\"slot\"", "slots");
  expect_refused("\"slots\":[0,1]", "\"slots\":{\"a\":0}", "slots: not a list");
  expect_refused("\"slots\":[0,1]", "\"slots\":0", "slots: not a list");
  expect_refused("{", "[", "step plan: ");
  EXPECT_TRUE(parse_plan("").has_error());
  EXPECT_TRUE(parse_plan("[]").has_error());
  EXPECT_TRUE(parse_plan("7").has_error());
}

}  // namespace
}  // namespace tinyloop::engine
