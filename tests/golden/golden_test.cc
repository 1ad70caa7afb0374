// The shipped model in f32 mode, or in that of a CUDA device, against results of an independent
// float32 implementation (tests/golden/golden.json, heldout.json): logits, scores, greedy
// continuations, held-out loss.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/golden/golden_files.h"
#include "tests/support/engine_driver.h"
#include "tests/support/test_device.h"
#include "tests/support/unroll.h"

namespace tinyloop::testing {
namespace {

ModelOptions options() {
  return device_options({.mode = ArithmeticMode::f32, .max_seq_len = 1024, .prefill_budget = 512});
}

struct Bounds {
  double logit = 2e-3;
  double score = 2e-3;
  double margin = 0.05;     // greedy is compared up to the first margin below this
  double mean_loss = 1e-4;  // absolute, or
  double loss_share = 0.0;  // of the reference's loss
};
// FP16 operands: a logit of this model moves by less than a greedy margin that counts.
constexpr Bounds kCudaBounds{.logit = 0.02, .score = 0.02, .mean_loss = 0, .loss_share = 0.001};

class Golden : public ::testing::Test {
 protected:
  RecordingClient generate(const nlohmann::json& expected, int32_t max_tokens) {
    GenerateRequest request;
    request.tokens = expected["tokens"].get<std::vector<int32_t>>();
    request.config.max_tokens = max_tokens;
    request.config.loops = expected["loops"].get<int32_t>();
    request.config.cache_window = expected.value("cache_window", 0);
    request.config.eos = EosMode::ignore;
    RecordingClient client(true);
    driver_.admit(driver_.check(request), client);
    driver_.run();
    return client;
  }

  RecordingClient score(const std::vector<int32_t>& tokens, int32_t loops) {
    RecordingClient client;
    ScoreRequest request{.tokens = tokens, .loops = loops};
    driver_.admit(driver_.check(request), client);
    driver_.run();
    return client;
  }

  EngineDriver driver_{golden_model(), options()};
  const Bounds bounds_ = on_cuda() ? kCudaBounds : Bounds{};
};

TEST_F(Golden, LogitsOfEveryCase) {
  const auto golden = read_golden("golden.json");
  size_t compared = 0;
  for (const auto& expected : golden["cases"]) {
    const RecordingClient client = generate(expected, 1);
    ASSERT_EQ(client.logits.size(), 1u);
    const auto ids = expected["top_ids"].get<std::vector<size_t>>();
    for (size_t i = 0; i < ids.size(); ++i, ++compared) {
      EXPECT_NEAR(double(client.logits[0][ids[i]]), expected["top_logits"][i].get<double>(),
                  bounds_.logit)
          << expected["tokens"].size() << " tokens, loops " << expected["loops"];
    }
  }
  EXPECT_EQ(compared, golden["cases"].size() * 32);
}

TEST_F(Golden, GreedyUpToTheFirstNarrowMargin) {
  const auto golden = read_golden("golden.json");
  int compared = 0;
  for (const auto& expected : golden["cases"]) {
    if (!expected.contains("greedy")) continue;
    const auto greedy = expected["greedy"].get<std::vector<int32_t>>();
    const RecordingClient client = generate(expected, int32_t(greedy.size()));
    for (size_t i = 0; i < greedy.size(); ++i, ++compared) {
      if (expected["greedy_margins"][i].get<double>() < bounds_.margin) break;
      ASSERT_EQ(client.tokens[i], greedy[i]) << "token " << i;
    }
  }
  EXPECT_GT(compared, 200);
}

TEST_F(Golden, ScoresOfEveryCase) {
  const auto golden = read_golden("golden.json");
  for (const auto& expected : golden["cases"]) {
    if (!expected.contains("score_logprobs")) continue;
    const RecordingClient client =
        score(expected["tokens"].get<std::vector<int32_t>>(), expected["loops"].get<int32_t>());
    const auto scores = expected["score_logprobs"].get<std::vector<double>>();
    ASSERT_EQ(client.scores.size(), scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      EXPECT_NEAR(double(client.scores[i]), scores[i], bounds_.score);
    }
  }
}

// Windows of 512 tokens, all in one engine at a time; slow, and the strongest check there is.
TEST_F(Golden, HeldOutLossAtEachDepth) {
  const auto heldout = read_golden("heldout.json");
  for (const auto& [depth, loss] : heldout["mean_loss"].items()) {
    double sum = 0;
    size_t count = 0;
    for (const auto& window : heldout["windows"]) {
      const RecordingClient client = score(window.get<std::vector<int32_t>>(), std::stoi(depth));
      for (const float s : client.scores) sum -= double(s);
      count += client.scores.size();
    }
    const double want = loss.get<double>(), bound = bounds_.mean_loss + bounds_.loss_share * want;
    EXPECT_NEAR(sum / double(count), want, bound) << depth << " loops";
  }
}

TEST_F(Golden, UnrolledFileGivesTheSameBits) {
  if (in_fast_mode()) GTEST_SKIP() << "which layers have FP16 copies differs between the files";
  const auto golden = read_golden("golden.json");
  const auto tokens = golden["cases"][20]["tokens"].get<std::vector<int32_t>>();
  for (int32_t loops : {1, 2, 4, 8}) {
    const auto file = write_unrolled(golden_model(), loops);
    EngineDriver plain(file->path(), options());
    RecordingClient unrolled;
    ScoreRequest request{.tokens = tokens};
    plain.admit(plain.check(request), unrolled);
    plain.run();
    EXPECT_EQ(score(tokens, loops).logits_hash, unrolled.logits_hash) << loops;
  }
}

}  // namespace
}  // namespace tinyloop::testing
