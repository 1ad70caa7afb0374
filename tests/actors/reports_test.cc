// What a model says about itself, and what a failed replica does.
#include <gtest/gtest.h>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

TEST(Reports, InfoDescribesTheModel) {
  ServedModel served;
  const ModelInfo info = served.model.info();
  EXPECT_EQ(info.architecture, "tinyloop");
  EXPECT_EQ(info.path, small_model().path());
  EXPECT_EQ(info.prelude_layers, 1);
  EXPECT_EQ(info.shared_layers, 2);
  EXPECT_EQ(info.coda_layers, 1);
  EXPECT_EQ(info.default_loops, 4);
  EXPECT_EQ(info.max_loops, 16);
  EXPECT_EQ(info.d_model, 64);
  EXPECT_EQ(info.vocab, 300);
  EXPECT_EQ(info.context_length, 256);
  EXPECT_EQ(info.max_seq_len, 256);
  EXPECT_EQ(info.device.rfind(test_device(), 0), 0u) << info.device;
}

TEST(Reports, MemoryComesBackToTheByte) {
  ServedModel served;
  const size_t loaded = served.model.memory().total();
  EXPECT_GT(loaded, 0u);
  const GenerateResult first = served.generate(request(40));
  const MemoryReport used = served.model.memory();
  EXPECT_EQ(used.pages_used, 0u);
  EXPECT_EQ(used.cache_reserved, 0u);
  EXPECT_GT(used.arena, 0u);
  const size_t trimmed = served.model.async_trim(asio::use_future).get();
  EXPECT_EQ(trimmed, used.arena);
  const MemoryReport after = served.model.memory();
  EXPECT_EQ(after.arena, 0u);
  EXPECT_EQ(after.total(), used.total() - trimmed);
  EXPECT_EQ(served.generate(request(40)).tokens, first.tokens);
  served.model.async_trim(asio::use_future).get();
  EXPECT_EQ(served.model.memory().total(), after.total());
  served.model.async_unload(ShutdownMode::drain, asio::use_future).get();
  EXPECT_EQ(served.model.memory().total(), 0u);
}

TEST(Reports, StatisticsAddUp) {
  ServedModel served;
  served.generate(request(3));
  ScoreRequest score;
  score.tokens = request(1).tokens;
  served.model.async_score(score, asio::use_future).get();
  auto wrong = served.model.async_generate(request(0), use_outcome());
  EXPECT_TRUE(error_of(wrong) == errc::invalid_argument);
  const Statistics statistics = served.model.statistics();
  EXPECT_EQ(statistics.accepted, 2u);
  EXPECT_EQ(statistics.rejected, 1u);
  EXPECT_EQ(statistics.completed_ok, 2u);
  EXPECT_EQ(statistics.generated_tokens, 3u);
  EXPECT_EQ(statistics.prompt_tokens, 5u + 4u);
  EXPECT_EQ(statistics.block_rows, 4u * (5 + 2 + 4));
  EXPECT_EQ(statistics.passes, 4u * (3 + 1));
  EXPECT_EQ(statistics.saturated_values, 0u);
  if (on_cuda()) {
    EXPECT_GT(statistics.device_launches, 0u);
  } else {
    EXPECT_EQ(statistics.device_launches, 0u);
  }
}

TEST(Reports, StatisticsHaveTheDevicesCountsAlsoAfterTheUnload) {
  const auto device = std::make_shared<TestDevice>();
  EngineOn engine(test_backends(device));
  const auto [error, model] = engine.load();
  ASSERT_FALSE(error) << error.message();
  EXPECT_EQ(model.statistics().saturated_values, 0u);
  EXPECT_EQ(model.statistics().device_launches, 0u);
  device->saturated = 3;
  device->host_launches = 500;
  EXPECT_EQ(model.statistics().saturated_values, 3u);
  EXPECT_EQ(model.statistics().device_launches, 500u);
  model.async_unload(ShutdownMode::drain, asio::use_future).get();
  device->saturated = 4;
  EXPECT_EQ(model.statistics().saturated_values, 3u);
  EXPECT_EQ(model.statistics().device_launches, 500u);
}

TEST(Reports, HealthOfAServingReplica) {
  ServedModel served;
  StepGate gate(served.model);
  auto future = served.model.async_generate(request(3), asio::use_future);
  gate.run(1);
  const HealthReport health = served.model.health();
  ASSERT_EQ(health.replicas.size(), 1u);
  EXPECT_EQ(health.replicas[0].state, ReplicaState::serving);
  EXPECT_TRUE(health.replicas[0].can_serve);
  EXPECT_EQ(health.replicas[0].active, 1u);
  EXPECT_EQ(health.replicas[0].queued, 0u);
  EXPECT_EQ(health.replicas[0].last_error, "");
  EXPECT_FALSE(health.cuda.empty());
  gate.open();
  future.get();
  EXPECT_EQ(served.model.health().replicas[0].active, 0u);
}

TEST(Reports, TimingsFollowTheRequest) {
  ServedModel served;
  const GenerateResult result = served.generate(request(5));
  EXPECT_GE(result.timings.queue_us, 0);
  EXPECT_GT(result.timings.prefill_us, 0);
  EXPECT_GT(result.timings.decode_us, 0);
}

TEST(Reports, TheTokenizerOutlivesTheEngine) {
  Tokenizer tokenizer;
  {
    ServedModel served;
    tokenizer = served.model.tokenizer();
  }
  ASSERT_TRUE(tokenizer);
  const auto tokens = tokenizer.encode("looped");
  EXPECT_FALSE(tokens.empty());
  EXPECT_EQ(tokenizer.decode(tokens), "looped");
  EXPECT_EQ(tokenizer.eos(), 0);
  EXPECT_THROW(Tokenizer().encode("x"), boost::system::system_error);
}

TEST(FailedReplica, EveryRequestIsToldAndNewOnesAreRefused) {
  ModelOptions options = small_options();
  options.max_sequences = 1;
  ServedModel served(options);
  StepGate gate(served.model);
  auto active = served.model.async_generate(request(20), use_outcome());
  gate.run(1);
  auto queued = served.model.async_generate(request(2), use_outcome());
  gate.run(1);
  visit_replica(served.model, [](engine::BatchEngine&) {
    throw base::Failure(errc::internal, "check failed at x.cc:1");
  });
  auto in_mailbox = served.model.async_generate(request(2), use_outcome());
  gate.open();
  for (auto* future : {&active, &queued, &in_mailbox}) {
    const error_code error = error_of(*future);
    EXPECT_TRUE(error == errc::replica_failed) << error.message();
    EXPECT_NE(error.message().find("x.cc:1"), std::string::npos);
  }
  const HealthReport health = served.model.health();
  EXPECT_EQ(health.replicas[0].state, ReplicaState::failed);
  EXPECT_FALSE(health.replicas[0].can_serve);
  EXPECT_EQ(health.replicas[0].failures, 1u);
  EXPECT_NE(health.replicas[0].last_error.find("x.cc:1"), std::string::npos);
  auto late = served.model.async_generate(request(2), use_outcome());
  EXPECT_TRUE(error_of(late) == errc::replica_failed);
  EXPECT_EQ(served.model.memory().pages_used, 0u);
  served.model.async_unload(ShutdownMode::drain, asio::use_future).get();
  EXPECT_EQ(served.model.memory().total(), 0u);
}

TEST(FailedReplica, AnExceptionInAStepFailsIt) {
  ServedModel served;
  visit_replica(served.model, [](engine::BatchEngine& engine) {
    engine.set_plan_observer([](const engine::StepPlan&) { throw std::bad_alloc(); });
  });
  auto future = served.model.async_generate(request(2), use_outcome());
  EXPECT_TRUE(error_of(future) == errc::replica_failed);
}

}  // namespace
}  // namespace tinyloop::testing
