// The same request gives the same bits whatever else runs: alone or in a batch, its prompt in one
// piece or sliced, on any number of threads.
//
// TINYLOOP_TEST_MODEL=path runs the same comparison on another model file (docs/testing.md).
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/random_model.h"
#include "tests/support/test_device.h"
#include "tests/support/workload.h"

namespace tinyloop::testing {
namespace {

constexpr int32_t kLongest = 1500;

ModelOptions options(ArithmeticMode mode, int32_t budget, int32_t threads) {
  return device_options(
      {.mode = mode, .max_seq_len = 1600, .prefill_budget = budget, .cpu_threads = threads});
}

ArithmeticMode default_mode() {
  return on_cuda() ? ArithmeticMode::f16 : ArithmeticMode::int8;
}
std::vector<ArithmeticMode> modes() {
  if (on_cuda()) return {default_mode()};
  return {default_mode(), ArithmeticMode::f32};
}

// The model and the requests, and what each request gives alone; the same for all tests of a mode.
struct Scene {
  static constexpr int kRequests = 200;

  explicit Scene(ArithmeticMode mode) {
    EngineDriver driver(path, options(mode, 4096, 1));
    alone = run_alone(driver, work);
  }
  static const Scene& get(ArithmeticMode mode) {
    if (mode == ArithmeticMode::f32) {
      static const Scene scene(ArithmeticMode::f32);
      return scene;
    }
    static const Scene scene(default_mode());
    return scene;
  }

  RandomModel random_model = write_random_model();
  const char* given_model = std::getenv("TINYLOOP_TEST_MODEL");
  const std::string path = given_model ? given_model : random_model.path();
  Workload work{20261, kRequests, kLongest, random_model.shape.vocab};
  std::vector<Outcome> alone;
};

struct Setting {
  const char* name;
  int32_t budget, threads, chunk, hold;
  size_t batch;
};

class Identity : public ::testing::TestWithParam<std::tuple<ArithmeticMode, Setting>> {};

TEST_P(Identity, SameBitsAsAlone) {
  const auto& [mode, s] = GetParam();
  const Scene& scene = Scene::get(mode);
  ModelOptions o = options(mode, s.budget, s.threads);
  o.prefill_chunk = s.chunk;
  o.hold_passes = s.hold;
  EngineDriver driver(scene.path, o);
  const auto batched = run_batched(driver, scene.work, s.batch, 99 + uint32_t(s.batch));
  for (size_t i = 0; i < scene.alone.size(); ++i) {
    EXPECT_EQ(batched[i], scene.alone[i]) << "request " << i;
  }
  EXPECT_EQ(driver.memory().pages_used, 0u);
  EXPECT_EQ(driver.memory().cache_reserved, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Identity,
    ::testing::Combine(::testing::ValuesIn(modes()),
                       ::testing::Values(Setting{"whole_prompts_batch_32", 4096, 1, 0, 0, 32},
                                         Setting{"budget_64_two_threads", 64, 2, 0, 0, 16},
                                         Setting{"budget_7_four_threads", 7, 4, 0, 0, 8},
                                         Setting{"budget_1_batch_32", 1, 1, 0, 0, 32},
                                         Setting{"scratch_of_48_rows", 64, 1, 48, 0, 5},
                                         Setting{"scratch_of_1_row", 4096, 2, 1, 0, 3},
                                         Setting{"held_for_company", 64, 1, 0, 3, 32},
                                         Setting{"alone_four_threads", 4096, 4, 0, 0, 1})),
    [](const auto& test) {
      return std::string(to_string(std::get<0>(test.param))) + "_" + std::get<1>(test.param).name;
    });

// Clients that want no logits: the most likely tokens come without them.
TEST(IdentityOfPicks, TokensAreThoseOfTheLogits) {
  const Scene& scene = Scene::get(default_mode());
  EngineDriver driver(scene.path, options(default_mode(), 64, 2));
  const auto picked = run_batched(driver, scene.work, 16, 7, RecordingClient::Logits::unasked);
  for (size_t i = 0; i < scene.alone.size(); ++i) {
    EXPECT_EQ(picked[i].tokens, scene.alone[i].tokens) << "request " << i;
    EXPECT_EQ(picked[i].text, scene.alone[i].text) << "request " << i;
  }
}

// Scoring a text, several passes of a narrow chunk included, gives the logits that generating it
// had.
TEST(IdentityOfScores, ScoreSeesTheLogitsOfGenerate) {
  const Scene& scene = Scene::get(default_mode());
  ModelOptions narrow = options(default_mode(), 64, 2);
  narrow.prefill_chunk = 9;
  EngineDriver driver(scene.path, narrow);
  for (int i = 0; i < 20; ++i) {
    GenerateRequest request = scene.work.requests[size_t(i)];
    request.config.temperature = 0;
    request.config.repetition_penalty = 1;
    RecordingClient generated(true);
    driver.admit(driver.check(request), generated);
    driver.run();
    ScoreRequest score{.tokens = request.tokens,
                       .loops = request.config.loops,
                       .cache_window = request.config.cache_window};
    score.tokens.insert(score.tokens.end(), generated.tokens.begin(), generated.tokens.end());
    RecordingClient scored(true);
    driver.admit(driver.check(score), scored);
    driver.run();
    const size_t first = request.tokens.size() - 1;
    for (size_t k = 0; k < generated.logits.size(); ++k) {
      ASSERT_EQ(scored.logits[first + k], generated.logits[k]) << "request " << i << " row " << k;
    }
  }
}

}  // namespace
}  // namespace tinyloop::testing
