// Every route to a continuation gives the same bits: computed from the beginning, behind a cached
// prefix of any length, or resumed from any smaller depth, at once or in several steps.
//
// TINYLOOP_TEST_MODEL=path runs the same comparison on another model file (docs/testing.md).
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/engine_driver.h"
#include "tests/support/random_model.h"
#include "tests/support/test_device.h"

namespace tinyloop::testing {
namespace {

constexpr int32_t kMostLoops = 8;

// A request, and the ways to it.
struct Case {
  GenerateRequest request;
  int32_t split;                // tokens of it that are a prefix
  std::vector<int32_t> depths;  // rising; the last one is the request's
};

class Cases {
 public:
  Cases(uint32_t seed, int32_t vocab, int32_t longest)
      : random_(seed), vocab_(vocab), longest_(longest) {}

  Case next() {
    Case result;
    const int32_t length = between(1, longest_);
    for (int32_t i = 0; i < length; ++i) result.request.tokens.push_back(between(0, vocab_ - 1));
    GenerateConfig& config = result.request.config;
    const int32_t windows[] = {0, 16, 64};
    config.cache_window = windows[between(0, 2)];
    config.loops = between(1, kMostLoops);
    config.max_tokens = between(1, 8);
    config.eos = EosMode::ignore;
    if (between(0, 1) == 1) {
      config.temperature = 0.9f;
      config.top_k = between(0, 1) * 40;
      config.seed = random_();
    }
    result.split = between(1, length);
    for (int32_t depth = 1; depth < *config.loops; ++depth) {
      if (between(0, 2) == 0) result.depths.push_back(depth);
    }
    result.depths.push_back(*config.loops);
    return result;
  }

 private:
  int32_t between(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }

  std::mt19937 random_;
  int32_t vocab_;
  int32_t longest_;
};

class ReuseTest : public ::testing::Test {
 protected:
  static ModelOptions options(int32_t budget) {
    return device_options({.max_seq_len = 256, .prefill_budget = budget, .cpu_threads = 2});
  }

  // Starts a request; the client tells how it went.
  RecordingClient& start(engine::SequenceRequest request) {
    clients_.push_back(std::make_unique<RecordingClient>());
    driver_->admit(std::move(request), *clients_.back());
    return *clients_.back();
  }

  engine::PrefixId build(engine::SequenceRequest request) {
    RecordingClient& client = start(std::move(request));
    driver_->run();
    EXPECT_EQ(client.ends, 1);
    EXPECT_TRUE(client.finished.has_value());
    EXPECT_NE(client.prefix, 0u);
    EXPECT_TRUE(client.tokens.empty());
    ids_.push_back(client.prefix);
    return client.prefix;
  }

  static std::vector<int32_t> first(const std::vector<int32_t>& tokens, int32_t count) {
    return {tokens.begin(), tokens.begin() + count};
  }

  PrefixRequest prefix_of(const Case& c, int32_t count, int32_t loops) const {
    return {.tokens = first(c.request.tokens, count),
            .loops = loops,
            .cache_window = c.request.config.cache_window};
  }

  engine::PrefixId build_cache(const Case& c, int32_t count) {
    return build(driver_->check(prefix_of(c, count, *c.request.config.loops)));
  }

  engine::PrefixId build_resume(const Case& c, int32_t loops) {
    const auto count = int32_t(c.request.tokens.size());
    return build(driver_->check(ResumeRequest{prefix_of(c, count, loops), kMostLoops}));
  }

  engine::PrefixId deepen(const Case& c, engine::PrefixId from, int32_t loops) {
    engine::CachedPrefixRef base = driver_->engine().find_prefix(from);
    auto request = engine::check_deepen({c.request.tokens, base->shape()}, {.loops = loops},
                                        driver_->engine().limits())
                       .value();
    request.base = std::move(base);
    return build(std::move(request));
  }

  RecordingClient& continue_behind(const Case& c, engine::PrefixId id, int32_t count) {
    GenerateRequest request = c.request;
    request.tokens.erase(request.tokens.begin(), request.tokens.begin() + count);
    return start(driver_->check(request, id, first(c.request.tokens, count)));
  }

  RecordingClient& resume(const Case& c, engine::PrefixId id, std::optional<int32_t> decode) {
    GenerateRequest request = c.request;
    request.tokens.clear();
    request.resume_loops = c.depths.back();
    request.config.loops = decode;
    return start(driver_->check(request, id, c.request.tokens));
  }

  // All memory comes back with the handles.
  void drop_all() {
    for (const engine::PrefixId id : ids_) driver_->engine().drop_prefix(id);
    ids_.clear();
    clients_.clear();
    EXPECT_EQ(driver_->memory().pages_used, 0u);
    EXPECT_EQ(driver_->memory().cache_reserved, 0u);
    EXPECT_EQ(driver_->memory().handles, 0u);
  }

  static void expect_same(const RecordingClient& got, const RecordingClient& expected,
                          const std::string& route) {
    EXPECT_EQ(got.ends, 1) << route;
    EXPECT_FALSE(got.error.has_value()) << route << ": " << got.error->detail;
    EXPECT_EQ(got.tokens, expected.tokens) << route;
    EXPECT_EQ(got.logit_positions, expected.logit_positions) << route;
    EXPECT_EQ(got.logits_hash, expected.logits_hash) << route;
    EXPECT_EQ(got.finished, expected.finished) << route;
  }

  void run_case(const Case& c);

  std::unique_ptr<EngineDriver> driver_;
  std::vector<std::unique_ptr<RecordingClient>> clients_;
  std::vector<engine::PrefixId> ids_;
};

void ReuseTest::run_case(const Case& c) {
  const auto length = int32_t(c.request.tokens.size());
  const RecordingClient& alone = start(driver_->check(c.request));
  driver_->run();
  struct Route {
    std::string name;
    const RecordingClient* client;
  };
  std::vector<Route> routes;
  const auto add = [&](std::string name, const RecordingClient& client) {
    routes.push_back({std::move(name), &client});
  };
  // All handles first; then all routes at once, from shared pages, beside the plain request.
  const engine::PrefixId part = build_cache(c, c.split), whole = build_cache(c, length);
  std::vector<engine::PrefixId> shallow;
  for (const int32_t depth : c.depths) shallow.push_back(build_resume(c, depth));
  engine::PrefixId deepened = shallow[0];
  for (size_t i = 1; i < c.depths.size(); ++i) deepened = deepen(c, deepened, c.depths[i]);

  add("alone again", start(driver_->check(c.request)));
  add("behind a part", continue_behind(c, part, c.split));
  add("behind a part, beside another", continue_behind(c, part, c.split));
  add("behind the whole", continue_behind(c, whole, length));
  for (size_t i = 0; i < shallow.size(); ++i) {
    add("resumed from " + std::to_string(c.depths[i]), resume(c, shallow[i], c.depths.back()));
  }
  add("resumed from deepened", resume(c, deepened, std::nullopt));
  driver_->run();
  for (const Route& route : routes) expect_same(*route.client, alone, route.name);

  // Decoding at smaller depths than the prefix: the same from wherever the prefix was resumed.
  for (int32_t decode = 1; decode < c.depths.back(); decode += 2) {
    const RecordingClient& direct = resume(c, shallow.back(), decode);
    const RecordingClient& resumed = resume(c, shallow[0], decode);
    driver_->run();
    expect_same(resumed, direct, "decoding at " + std::to_string(decode));
  }
  drop_all();
}

TEST_F(ReuseTest, EveryRouteGivesTheSameBits) {
  constexpr uint32_t kSeed = 5150;
  constexpr int kCases = 300;
  ModelShape shapes[] = {{.injection = "linear", .loop_norm = true},
                         {.prelude = 0, .coda = 0},
                         {.prelude = 2, .coda = 2, .injection = "add", .initial_state = "normal"}};
  const char* given = std::getenv("TINYLOOP_TEST_MODEL");
  const int models = given ? 1 : 3;
  for (int m = 0; m < models; ++m) {
    const RandomModel model = write_random_model(shapes[m]);
    driver_ =
        std::make_unique<EngineDriver>(given ? given : model.path(), options(m == 1 ? 11 : 256));
    Cases cases(kSeed + uint32_t(m), model.shape.vocab, 90);
    for (int i = 0; i < kCases / models && !HasFailure(); ++i) {
      SCOPED_TRACE("seed " + std::to_string(kSeed) + ", model " + std::to_string(m) + ", case " +
                   std::to_string(i));
      run_case(cases.next());
    }
  }
}

}  // namespace
}  // namespace tinyloop::testing
