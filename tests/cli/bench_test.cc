#include <gtest/gtest.h>

#include "program.h"

namespace tinyloop::test {
namespace {

using nlohmann::json;

TEST(Bench, MeasuresEveryDepthAndBatchSize) {
  const json result = json_on_model("bench", {"--prompt-tokens", "8", "--gen-tokens", "4",
                                              "--batch", "1,3", "--loops", "1,2", "--repeat", "1"});
  ASSERT_EQ(result.at("results").size(), 4u);
  size_t i = 0;
  for (const int loops : {1, 2}) {
    for (const int batch : {1, 3}) {
      const json& row = result.at("results")[i++];
      EXPECT_EQ(row.at("loops"), loops);
      EXPECT_EQ(row.at("batch"), batch);
      EXPECT_GT(row.at("prefill_tokens_per_s"), 0.0);
      EXPECT_GT(row.at("decode_tokens_per_s"), 0.0);
    }
  }
}

TEST(Bench, RefusesWrongNumbers) {
  expect_failure(run_on_model("bench", {"--batch", "1,0"}), 2, "--batch[1]: '0'");
  expect_failure(run_on_model("bench", {"--loops", "99"}), 2, "--loops[0]: '99'");
  expect_failure(run_on_model("bench", {"--repeat", "0"}), 2, "--repeat: 0");
  expect_failure(run_on_model("bench", {"--prompt-tokens", "0"}), 2, "--prompt-tokens: 0");
}

}  // namespace
}  // namespace tinyloop::test
