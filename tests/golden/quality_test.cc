// What the default mode costs in quality on the shipped model: held-out loss, the most likely token
// and single logits against the float32 reference (tests/golden/heldout.json, golden.json).
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/golden/golden_files.h"
#include "tests/support/engine_driver.h"
#include "tests/support/test_device.h"

namespace tinyloop::testing {
namespace {

class Quality : public ::testing::Test {
 protected:
  static constexpr double kLossShare = 0.001;  // of the reference's loss
  static constexpr double kClearMargin = 0.3;  // between the two most likely tokens
  static constexpr double kEqualShare = 0.99;  // of positions with a clear margin
  static constexpr double kLogit = 0.3;

  RecordingClient score(const nlohmann::json& tokens, int32_t loops) {
    RecordingClient client(true);
    ScoreRequest request{.tokens = tokens.get<std::vector<int32_t>>(), .loops = loops};
    driver_.admit(driver_.check(request), client);
    driver_.run();
    return client;
  }

  EngineDriver driver_{golden_model(),
                       device_options({.max_seq_len = 1024, .prefill_budget = 512})};
};

TEST_F(Quality, HeldOutLossAtEachDepth) {
  const auto heldout = read_golden("heldout.json");
  for (const auto& [depth, reference] : heldout["mean_loss"].items()) {
    double sum = 0;
    size_t count = 0;
    for (const auto& window : heldout["windows"]) {
      const RecordingClient client = score(window, std::stoi(depth));
      for (const float s : client.scores) sum -= double(s);
      count += client.scores.size();
    }
    const double want = reference.get<double>(), loss = sum / double(count);
    RecordProperty("loss_at_" + depth, std::to_string(loss));
    EXPECT_NEAR(loss, want, kLossShare * want) << depth << " loops";
  }
}

TEST_F(Quality, MostLikelyTokenWhereItIsClear) {
  const auto heldout = read_golden("heldout.json");
  for (const auto& [depth, tops] : heldout["top"].items()) {
    int clear = 0, equal = 0;
    size_t position = 0;
    for (size_t w = 0; position < tops.size(); ++w) {
      const RecordingClient client = score(heldout["windows"][w], std::stoi(depth));
      // The last row's logits have no token to score.
      for (size_t row = 0; row < client.scores.size(); ++row, ++position) {
        if (tops[position][1].get<double>() < kClearMargin) continue;
        const auto& logits = client.logits[row];
        const auto top = std::max_element(logits.begin(), logits.end()) - logits.begin();
        ++clear;
        if (top == tops[position][0].get<ptrdiff_t>()) ++equal;
      }
    }
    RecordProperty("equal_at_" + depth, std::to_string(equal) + "/" + std::to_string(clear));
    EXPECT_GT(clear, 1000);
    EXPECT_GE(equal, kEqualShare * clear) << depth << " loops";
  }
}

TEST_F(Quality, LogitsOfEveryCase) {
  const auto golden = read_golden("golden.json");
  double largest = 0;
  for (const auto& expected : golden["cases"]) {
    GenerateRequest request;
    request.tokens = expected["tokens"].get<std::vector<int32_t>>();
    request.config.max_tokens = 1;
    request.config.loops = expected["loops"].get<int32_t>();
    request.config.cache_window = expected.value("cache_window", 0);
    RecordingClient client(true);
    driver_.admit(driver_.check(request), client);
    driver_.run();
    const auto ids = expected["top_ids"].get<std::vector<size_t>>();
    for (size_t i = 0; i < ids.size(); ++i) {
      const double error =
          std::abs(double(client.logits[0][ids[i]]) - expected["top_logits"][i].get<double>());
      largest = std::max(largest, error);
      EXPECT_LE(error, kLogit) << request.tokens.size() << " tokens, loops " << expected["loops"];
    }
  }
  RecordProperty("largest_logit_error", std::to_string(largest));
}

}  // namespace
}  // namespace tinyloop::testing
