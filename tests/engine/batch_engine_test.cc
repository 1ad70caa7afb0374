// The engine around the forward path: ends of generation, cancels, memory, failures.
#include "engine/batch_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "tests/support/engine_driver.h"
#include "tests/support/random_model.h"
#include "tests/support/test_backend.h"
#include "tests/support/test_device.h"

namespace tinyloop::testing {
namespace {

class BatchEngineTest : public ::testing::Test {
 protected:
  ModelOptions options_ = device_options(
      {.max_seq_len = 128, .prefill_budget = 16, .max_sequences = 4, .cpu_threads = 1});
  RandomModel model_ = write_random_model();

  static GenerateRequest request(int32_t max_tokens = 6) {
    GenerateRequest r{.tokens = {10, 20, 30}};
    r.config.max_tokens = max_tokens;
    r.config.loops = 3;
    r.config.eos = EosMode::ignore;
    return r;
  }

  // What the engine holds. The work space of a CUDA backend grows as ops ask for it, and stays.
  static size_t held(const kernels::DeviceMemory& memory) {
    return memory.used_total() - (on_cuda() ? memory.used(kernels::MemoryUse::workspace) : 0);
  }

  static std::vector<int32_t> generate(EngineDriver& driver, const GenerateRequest& r) {
    RecordingClient client;
    driver.admit(driver.check(r), client);
    driver.run();
    EXPECT_TRUE(client.finished.has_value());
    return client.tokens;
  }
};

TEST_F(BatchEngineTest, MaxTokensEndsWithThatManyTokens) {
  EngineDriver driver(model_.path(), options_);
  RecordingClient client;
  driver.admit(driver.check(request()), client);
  driver.run();
  EXPECT_EQ(client.begins, 1);
  EXPECT_EQ(client.ends, 1);
  EXPECT_EQ(client.finished, FinishReason::max_tokens);
  EXPECT_EQ(client.tokens.size(), 6u);
}

TEST_F(BatchEngineTest, StopTokensAreKeptAndEndIt) {
  EngineDriver driver(model_.path(), options_);
  const auto tokens = generate(driver, request());
  GenerateRequest stopped = request();
  stopped.config.stop_sequences = {std::vector<int32_t>{tokens[2], tokens[3]}};
  RecordingClient client;
  driver.admit(driver.check(stopped), client);
  driver.run();
  EXPECT_EQ(client.finished, FinishReason::stop_sequence);
  EXPECT_EQ(client.tokens, (std::vector<int32_t>(tokens.begin(), tokens.begin() + 4)));
}

TEST_F(BatchEngineTest, EosEndsItAndIsKept) {
  EngineDriver driver(model_.path(), options_);
  // Sampling hot over a small vocabulary meets the end-of-sequence token sooner or later.
  GenerateRequest r = request(100);
  r.config.temperature = 3.0f;
  r.config.eos = EosMode::stop;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    r.config.seed = seed;
    RecordingClient client;
    driver.admit(driver.check(r), client);
    driver.run();
    if (client.finished != FinishReason::eos) continue;
    EXPECT_EQ(client.tokens.back(), 0);
    EXPECT_EQ(std::count(client.tokens.begin(), client.tokens.end(), 0), 1);
    return;
  }
  FAIL() << "no seed met the end-of-sequence token";
}

TEST_F(BatchEngineTest, LogprobsComeWithEachToken) {
  EngineDriver driver(model_.path(), options_);
  GenerateRequest r = request();
  r.config.logprobs = 3;
  RecordingClient client;
  driver.admit(driver.check(r), client);
  driver.run();
  ASSERT_EQ(client.logprobs.size(), client.tokens.size());
  for (size_t i = 0; i < client.tokens.size(); ++i) {
    EXPECT_EQ(client.logprobs[i].chosen.token, client.tokens[i]);
    ASSERT_EQ(client.logprobs[i].top.size(), 3u);
    EXPECT_EQ(client.logprobs[i].top[0].token, client.tokens[i]);  // greedy takes the likeliest
    EXPECT_EQ(client.logprobs[i].top[0].logprob, client.logprobs[i].chosen.logprob);
  }
}

TEST_F(BatchEngineTest, ScoreOfOneTokenIsEmpty) {
  EngineDriver driver(model_.path(), options_);
  RecordingClient client;
  driver.admit(driver.check(ScoreRequest{.tokens = {5}}), client);
  driver.run();
  EXPECT_EQ(client.finished, FinishReason::max_tokens);
  EXPECT_TRUE(client.scores.empty());
}

TEST_F(BatchEngineTest, FinishGivesPagesBackInMidDepth) {
  EngineDriver driver(model_.path(), options_);
  RecordingClient a, b;
  const auto id = driver.admit(driver.check(request(50)), a);
  driver.admit(driver.check(request(5)), b);
  for (int i = 0; i < 8; ++i) driver.engine().step();
  const auto tokens_so_far = a.tokens.size();
  driver.engine().finish(id, FinishReason::cancelled);
  driver.engine().finish(id, FinishReason::deadline);  // ended already: nothing happens
  EXPECT_EQ(a.ends, 1);
  EXPECT_EQ(a.finished, FinishReason::cancelled);
  driver.run();
  EXPECT_EQ(a.tokens.size(), tokens_so_far);
  EXPECT_EQ(b.finished, FinishReason::max_tokens);
  EXPECT_EQ(driver.memory().pages_used, 0u);
  EXPECT_EQ(driver.memory().cache_reserved, 0u);
}

TEST_F(BatchEngineTest, CacheBytesBoundsWhatASequenceHolds) {
  for (int32_t window : {0, 1, 20}) {
    EngineDriver driver(model_.path(), options_);
    GenerateRequest r = request(100);
    r.config.cache_window = window;
    auto checked = driver.check(r);
    const size_t bytes = driver.engine().cache_bytes(checked);
    RecordingClient client;
    driver.admit(std::move(checked), client);
    size_t most = 0;
    while (driver.engine().active() > 0) {
      driver.engine().step();
      most = std::max(most, driver.memory().page_bytes_used);
    }
    EXPECT_LE(most, bytes) << window;
    if (window == 0) {
      EXPECT_EQ(most, bytes);
    }
  }
}

TEST_F(BatchEngineTest, MemoryReportAddsUpAndReturns) {
  auto backend = kernels::make_backend(options_).value();
  const size_t before = held(backend->memory());
  engine::MemoryLedger ledger;
  const base::LogSink log;
  {
    auto engine = engine::BatchEngine::load(model_.path(), options_, *backend, ledger, log).value();
    RecordingClient client;
    auto checked = engine::check_request(request(), engine->limits(), nullptr).value();
    ASSERT_TRUE(engine->try_reserve(checked));
    engine->admit(std::move(checked), client);
    while (engine->active() > 0) engine->step();
    const MemoryReport report = ledger.report(backend->memory());
    EXPECT_EQ(report.total(), backend->memory().used_total());
    EXPECT_EQ(report.model_bytes(), report.total() - report.arena);
    size_t buffers = 0;
    for (const auto& buffer : report.buffer_list) buffers += buffer.bytes;
    EXPECT_EQ(buffers, report.buffers);
    EXPECT_EQ(report.page_bytes_free + report.page_bytes_used > 0, report.arena > 0);
    EXPECT_GT(engine->trim(), 0u);
    EXPECT_EQ(ledger.report(backend->memory()).arena, 0u);
  }
  EXPECT_EQ(held(backend->memory()), before);
  EXPECT_TRUE(ledger.report(backend->memory()).buffer_list.empty());
}

// Scratch is proportional to the chunk's rows; main is always max_seq_len rows.
TEST_F(BatchEngineTest, PrefillChunkSizesTheScratchBuffers) {
  const auto sizes = [&](int32_t chunk) {
    ModelOptions o = options_;
    o.prefill_chunk = chunk;
    EngineDriver driver(model_.path(), o);
    std::map<std::string, size_t> bytes;
    for (const auto& buffer : driver.memory().buffer_list) bytes[buffer.name] = buffer.bytes;
    return bytes;
  };
  const auto full = sizes(0), chunk8 = sizes(8), chunk16 = sizes(16);
  for (const char* name : {"norm", "scratch1", "attn_down"}) {
    EXPECT_EQ(chunk16.at(name), 2 * chunk8.at(name)) << name;
    EXPECT_EQ(full.at(name), 128 / 8 * chunk8.at(name)) << name;
  }
  EXPECT_EQ(full.at("main"), 128u * 64 * 4);
  EXPECT_EQ(chunk8.at("main"), full.at("main"));
  EXPECT_FALSE(full.contains("logits"));  // on first use
}

// Whichever allocation fails, the load fails and nothing stays allocated.
TEST_F(BatchEngineTest, LoadFailsCleanlyAtEveryAllocation) {
  const base::LogSink log;
  for (uint64_t nth = 1;; ++nth) {
    auto backend = kernels::make_backend(options_).value();
    const size_t before = held(backend->memory());
    engine::MemoryLedger ledger;
    backend->memory().fail_allocation(nth);
    const auto result = engine::BatchEngine::load(model_.path(), options_, *backend, ledger, log);
    if (result.has_value()) {
      EXPECT_GT(nth, 20u);
      return;
    }
    EXPECT_EQ(result.error().code, errc::out_of_memory);
    EXPECT_NE(result.error().detail.find("bytes could not be allocated"), std::string::npos);
    EXPECT_EQ(held(backend->memory()), before) << "allocation " << nth;
    EXPECT_TRUE(ledger.report(backend->memory()).buffer_list.empty());
  }
}

TEST_F(BatchEngineTest, MemoryBudgetBoundsTheLoad) {
  const base::LogSink log;
  ModelOptions o = options_;  // enough for the backend's own work space, not for the weights
  o.memory_budget_bytes = kernels::make_backend(o).value()->memory().used_total() + 10000;
  auto backend = kernels::make_backend(o).value();
  engine::MemoryLedger ledger;
  const auto result = engine::BatchEngine::load(model_.path(), o, *backend, ledger, log);
  ASSERT_TRUE(result.has_error());
  EXPECT_EQ(result.error().code, errc::out_of_memory);
}

// A request that meets the end of device memory fails alone.
TEST_F(BatchEngineTest, OutOfPagesFailsOneSequenceAlone) {
  options_.max_seq_len = 1024;
  EngineDriver driver(model_.path(), options_);
  const auto expected = generate(driver, request(20));
  GenerateRequest large = request(4);
  large.config.loops = 16;
  for (int i = 0; i < 600; ++i) large.tokens.push_back(i % 300);  // more pages than a slab has
  RecordingClient lucky, unlucky, later;
  driver.admit(driver.check(request(20)), lucky);
  driver.admit(driver.check(large), unlucky);
  driver.admit(driver.check(request(20)), later);
  driver.backend().memory().fail_all_allocations(true);
  driver.run();
  driver.backend().memory().fail_all_allocations(false);
  ASSERT_TRUE(unlucky.error.has_value());
  EXPECT_EQ(unlucky.error->code, errc::out_of_memory);
  EXPECT_EQ(unlucky.ends, 1);
  EXPECT_EQ(lucky.tokens, expected);
  EXPECT_EQ(later.tokens, expected);
  EXPECT_EQ(driver.memory().pages_used, 0u);
  EXPECT_EQ(driver.memory().cache_reserved, 0u);
}

// Slabs of one kind of page serve the other kind once nobody uses them: the device's memory is
// never full of free pages.
TEST_F(BatchEngineTest, FreeSlabsOfOneKindMakeRoomForTheOther) {
  TINYLOOP_SKIP_ON_CUDA("the figures leave no room for kernels' work space");
  options_.max_seq_len = 1024;
  EngineDriver driver(model_.path(), options_);
  GenerateRequest deep = request(4);
  deep.config.loops = 16;
  for (int i = 0; i < 600; ++i) deep.tokens.push_back(i % 300);
  generate(driver, deep);
  const size_t loop_slabs = driver.memory().arena;
  driver.engine().trim();
  // As much memory as the deep request took, and not a byte more.
  ModelOptions tight = options_;
  tight.memory_budget_bytes = driver.memory().total() + loop_slabs;
  EngineDriver small(model_.path(), tight);
  generate(small, deep);
  GenerateRequest shallow = request(4);
  shallow.config.loops = 1;
  for (int i = 0; i < 900; ++i) shallow.tokens.push_back(i % 300);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(generate(small, shallow).size(), 4u);
  EXPECT_EQ(generate(small, deep).size(), 4u);
}

TEST_F(BatchEngineTest, GoingPastTheTrainedContextIsSaidOnce) {
  options_.max_seq_len = 1024;
  auto backend = kernels::make_backend(options_).value();
  engine::MemoryLedger ledger;
  int warnings = 0;
  const base::LogSink log = [&](LogLevel level, std::string_view text) {
    if (level == LogLevel::warning && text.find("trained context of 256") != text.npos) ++warnings;
  };
  auto engine = engine::BatchEngine::load(model_.path(), options_, *backend, ledger, log).value();
  for (int i = 0; i < 3; ++i) {
    GenerateRequest r = request(1);
    r.tokens.assign(300, 7);
    auto checked = engine::check_request(r, engine->limits(), nullptr).value();
    RecordingClient client;
    ASSERT_TRUE(engine->try_reserve(checked));
    engine->admit(std::move(checked), client);
    while (engine->active() > 0) engine->step();
    EXPECT_TRUE(client.finished.has_value());
  }
  EXPECT_EQ(warnings, 1);
}

TEST_F(BatchEngineTest, HeadsThatTheDeviceCannotTakeAreRefusedByName) {
  const auto device = std::make_shared<TestDevice>();
  TestBackend backend(kernels::make_backend(options_).value(), device);
  engine::MemoryLedger ledger;
  const base::LogSink log = [](LogLevel, std::string_view) {};
  const size_t before = backend.memory().used_total();
  device->name = "narrow:0 (a device)";
  device->most_head_dim = 15;  // the model has 16
  const auto refused = engine::BatchEngine::load(model_.path(), options_, backend, ledger, log);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::unsupported_model);
  EXPECT_NE(refused.error().detail.find("head_dim: 16, expected at most 15 on narrow:0 (a device)"),
            std::string::npos)
      << refused.error().detail;
  EXPECT_EQ(backend.memory().used_total(), before);
  device->most_head_dim = 16;
  EXPECT_TRUE(engine::BatchEngine::load(model_.path(), options_, backend, ledger, log));
}

TEST_F(BatchEngineTest, LogitsRowMissingFailsThoseInProgressAndHeals) {
  EngineDriver driver(model_.path(), options_);
  RecordingClient failed, fine;
  driver.admit(driver.check(request()), failed);
  driver.backend().memory().fail_allocation(1);
  driver.engine().step();
  ASSERT_TRUE(failed.error.has_value());
  EXPECT_EQ(failed.error->code, errc::out_of_memory);
  driver.admit(driver.check(request()), fine);
  driver.run();
  EXPECT_EQ(fine.finished, FinishReason::max_tokens);
}

TEST_F(BatchEngineTest, FailAllTellsEveryone) {
  EngineDriver driver(model_.path(), options_);
  RecordingClient a, b;
  driver.admit(driver.check(request()), a);
  driver.admit(driver.check(request()), b);
  driver.engine().step();
  driver.engine().fail_all({errc::replica_failed, "test"});
  EXPECT_EQ(a.error->code, errc::replica_failed);
  EXPECT_EQ(b.error->code, errc::replica_failed);
  EXPECT_EQ(driver.engine().active(), 0u);
  EXPECT_EQ(driver.memory().pages_used, 0u);
}

// Weights that are not finite: the request fails with a named error, the engine goes on.
TEST_F(BatchEngineTest, NonFiniteLogitsFailTheRequest) {
  ModelShape shape;
  shape.tokenizer = false;
  GgufWriter writer = random_model_writer(shape);
  for (auto& tensor : writer.tensors) {
    if (tensor.name != "output_norm.weight") continue;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (size_t at = 0; at + 4 <= tensor.data.size(); at += 4) {
      std::memcpy(tensor.data.data() + at, &nan, 4);
    }
  }
  const auto file = writer.write_temp("nan");
  EngineDriver driver(file->path(), options_);
  RecordingClient generated, scored;
  driver.admit(driver.check(request()), generated);
  driver.admit(driver.check(ScoreRequest{.tokens = {1, 2, 3}}), scored);
  driver.run();
  EXPECT_EQ(generated.error->code, errc::internal);
  EXPECT_EQ(generated.error->detail, "the model's logits are not finite");
  EXPECT_EQ(scored.error->code, errc::internal);
  EXPECT_EQ(driver.memory().pages_used, 0u);
}

}  // namespace
}  // namespace tinyloop::testing
