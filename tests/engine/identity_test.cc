// The same request gives the same bits whatever else runs: alone or in a batch, its prompt in one
// piece or sliced, on any number of threads.
//
// TINYLOOP_TEST_MODEL=path runs the same comparison on another model file (docs/testing.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>

#include "tests/support/engine_driver.h"
#include "tests/support/random_model.h"

namespace tinyloop::testing {
namespace {

struct Outcome {
  std::vector<int32_t> tokens;
  std::vector<float> scores;
  uint64_t logits_hash = 0;
  std::string text;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(const RecordingClient& client) {
  EXPECT_EQ(client.ends, 1);
  EXPECT_TRUE(client.finished.has_value());
  return {client.tokens, client.scores, client.logits_hash, client.text};
}

struct Workload {
  std::vector<GenerateRequest> requests;

  Workload(uint32_t seed, int count, int32_t longest, int32_t vocab) {
    std::mt19937 random(seed);
    const auto pick = [&](int32_t low, int32_t high) {
      return std::uniform_int_distribution<int32_t>(low, high)(random);
    };
    for (int i = 0; i < count; ++i) {
      GenerateRequest r;
      // Mostly short, some long, some at the borders of pages and attention splits.
      const int32_t borders[] = {1, 15, 16, 17, 255, 256, 257, 511, 513, 1500};
      int32_t length = i % 8 == 0 ? pick(1, longest) : pick(1, 60);
      if (i % 5 == 0) length = borders[size_t(pick(0, 9))];
      for (int32_t t = 0; t < std::min(length, longest); ++t) {
        r.tokens.push_back(pick(0, vocab - 1));
      }
      r.config.max_tokens = pick(1, 12);
      r.config.loops = pick(1, 8);
      r.config.eos = EosMode::ignore;
      if (i % 3 == 0) r.config.cache_window = pick(1, 40);
      if (i % 2 == 0) {
        r.config.temperature = 0.9f;
        r.config.top_k = pick(0, 50);
        r.config.top_p = 0.95f;
        r.config.repetition_penalty = 1.1f;
        r.config.seed = uint64_t(pick(0, 1 << 30));
      }
      requests.push_back(std::move(r));
    }
  }
};

// Runs the requests with at most `batch` in progress, arriving at random between passes.
std::vector<Outcome> run_batched(EngineDriver& driver, const Workload& work, size_t batch,
                                 uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::unique_ptr<RecordingClient>> clients;
  std::vector<size_t> order(work.requests.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (size_t i = 0; i < order.size(); ++i) clients.push_back(std::make_unique<RecordingClient>());
  for (size_t next = 0; next < order.size() || driver.engine().active() > 0;) {
    while (next < order.size() && driver.engine().active() < batch && random() % 3 != 0) {
      driver.admit(driver.check(work.requests[order[next]]), *clients[order[next]]);
      ++next;
    }
    driver.engine().step();
  }
  std::vector<Outcome> outcomes;
  for (const auto& client : clients) outcomes.push_back(outcome_of(*client));
  return outcomes;
}

constexpr int32_t kLongest = 1500;

ModelOptions options(ArithmeticMode mode, int32_t budget, int32_t threads) {
  return {.mode = mode, .max_seq_len = 1600, .prefill_budget = budget, .cpu_threads = threads};
}

// The model and the requests, and what each request gives alone; the same for all tests of a mode.
struct Scene {
  static constexpr int kRequests = 200;

  explicit Scene(ArithmeticMode mode) {
    EngineDriver driver(path, options(mode, 4096, 1));
    for (const GenerateRequest& request : work.requests) {
      RecordingClient client;
      driver.admit(driver.check(request), client);
      driver.run();
      alone.push_back(outcome_of(client));
    }
  }
  static const Scene& get(ArithmeticMode mode) {
    if (mode == ArithmeticMode::f32) {
      static const Scene scene(ArithmeticMode::f32);
      return scene;
    }
    static const Scene scene(ArithmeticMode::int8);
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
    ::testing::Combine(::testing::Values(ArithmeticMode::int8, ArithmeticMode::f32),
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

// Scoring a text, several passes of a narrow chunk included, gives the logits that generating it
// had.
TEST(IdentityOfScores, ScoreSeesTheLogitsOfGenerate) {
  const Scene& scene = Scene::get(ArithmeticMode::int8);
  ModelOptions narrow = options(ArithmeticMode::int8, 64, 2);
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
