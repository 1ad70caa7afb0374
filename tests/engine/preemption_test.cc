// A budget that does not hold what all requests grow to: the newest make room, begin again, and end
// with the bits that they have alone.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/engine_driver.h"
#include "tests/support/random_model.h"
#include "tests/support/test_device.h"

namespace tinyloop::testing {
namespace {

using Logits = RecordingClient::Logits;

class PreemptionTest : public ::testing::Test {
 protected:
  static ModelOptions roomy() {
    ModelOptions options = device_options();
    options.max_seq_len = 256;
    options.max_sequences = 16;
    options.cpu_threads = 1;
    return options;
  }

  // Pages for so many positions at four loops.
  size_t bytes_for(int32_t positions) {
    const size_t page = reference_.engine().cache_bytes(reference_.check(request(16, 1, 1)));
    return size_t(positions / 16) * page;
  }

  ModelOptions tight(int32_t positions, int32_t reserve_tokens) {
    ModelOptions options = roomy();
    options.cache_budget_bytes = bytes_for(positions);
    options.reserve_tokens = reserve_tokens;
    return options;
  }

  static std::vector<int32_t> tokens(int32_t count, int32_t seed) {
    std::vector<int32_t> result;
    for (int32_t i = 0; i < count; ++i) result.push_back(1 + (seed * 37 + i * 11) % 299);
    return result;
  }

  static GenerateRequest request(int32_t prompt, int32_t max_tokens, int32_t seed) {
    GenerateRequest request{.tokens = tokens(prompt, seed)};
    request.config.max_tokens = max_tokens;
    request.config.loops = 4;
    request.config.eos = EosMode::ignore;
    return request;
  }

  // One that is under way, by its rank.
  struct Started {
    std::unique_ptr<RecordingClient> client = std::make_unique<RecordingClient>();
    engine::SequenceId id = 0;
  };
  Started start(EngineDriver& driver, engine::SequenceRequest checked) {
    checked.rank = next_rank_++;
    Started started;
    started.id = driver.admit(std::move(checked), *started.client);
    return started;
  }

  int32_t run(EngineDriver& driver) {
    int32_t preemptions = 0;
    while (driver.engine().active() > 0) preemptions += driver.engine().step().preemptions;
    return preemptions;
  }

  template <class Request>
  void expect_as_alone(const Request& request, const RecordingClient& client) {
    RecordingClient alone;
    reference_.admit(reference_.check(request), alone);
    reference_.run();
    EXPECT_EQ(client.tokens, alone.tokens);
    EXPECT_EQ(client.scores, alone.scores);
    EXPECT_EQ(client.text, alone.text);
    EXPECT_EQ(client.logit_positions, alone.logit_positions);
    EXPECT_EQ(client.logits_hash, alone.logits_hash);
    EXPECT_EQ(client.finished, alone.finished);
    EXPECT_EQ(client.begins, 1);
    EXPECT_EQ(client.ends, 1);
  }

  static void expect_all_back(const EngineDriver& driver) {
    EXPECT_EQ(driver.memory().pages_used, 0u);
    EXPECT_EQ(driver.memory().cache_reserved, 0u);
  }

  RandomModel model_ = write_random_model();
  EngineDriver reference_{model_.path(), roomy()};
  int64_t next_rank_ = 0;
};

TEST_F(PreemptionTest, TheNewestMakeRoomAndEndAsAlone) {
  EngineDriver driver(model_.path(), tight(160, 8));
  std::vector<GenerateRequest> requests;
  std::vector<Started> started;
  for (int32_t i = 0; i < 6; ++i) {
    requests.push_back(request(5 + i, 70 + i, i));
    requests.back().config.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    requests.back().config.repetition_penalty = 1.1f;
    requests.back().config.frequency_penalty = 0.5f;
    requests.back().config.seed = uint64_t(i);
    started.push_back(start(driver, driver.check(requests.back())));
  }
  EXPECT_GE(run(driver), 3);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    expect_as_alone(requests[i], *started[i].client);
  }
  expect_all_back(driver);
}

TEST_F(PreemptionTest, TheOldestIsNeverPreempted) {
  EngineDriver driver(model_.path(), tight(128, 1));
  std::vector<Started> started;
  for (int32_t i = 0; i < 5; ++i) started.push_back(start(driver, driver.check(request(4, 90, i))));
  // Alone it takes one step for its prompt and one for each further token, as deep as it is.
  EngineDriver alone(model_.path(), tight(128, 1));
  const Started only = start(alone, alone.check(request(4, 90, 0)));
  int32_t steps_alone = 0;
  for (; alone.engine().active() > 0; ++steps_alone) alone.engine().step();
  int32_t steps = 0;
  for (; started[0].client->ends == 0; ++steps) driver.engine().step();
  EXPECT_LE(steps, 2 * steps_alone);
  EXPECT_GT(run(driver), 0);
  for (const Started& each : started) EXPECT_EQ(each.client->finished, FinishReason::max_tokens);
}

TEST_F(PreemptionTest, AScoreTellsEachRowOnce) {
  // In slices, so that it is in the midst of its text when the older one grows.
  ModelOptions options = tight(176, 1);
  options.prefill_budget = 4;
  EngineDriver driver(model_.path(), options);
  const GenerateRequest older = request(60, 80, 1);
  const ScoreRequest text{.tokens = tokens(100, 2), .loops = 4};
  const Started first = start(driver, driver.check(older));
  while (first.client->tokens.empty()) driver.engine().step();
  const Started second = start(driver, driver.check(text));
  EXPECT_EQ(run(driver), 1);
  expect_as_alone(older, *first.client);
  expect_as_alone(text, *second.client);
  EXPECT_EQ(second.client->scores.size(), 99u);
  expect_all_back(driver);
}

TEST_F(PreemptionTest, WindowsKeptPromptsAndPrefixesBeginAgain) {
  EngineDriver driver(model_.path(), tight(288, 1));
  const std::vector<int32_t> beginning = tokens(21, 9);
  RecordingClient builder;
  driver.admit(driver.check(PrefixRequest{.tokens = beginning, .loops = 4}), builder);
  driver.run();
  RecordingClient resumable;
  driver.admit(driver.check(ResumeRequest{{.tokens = beginning, .loops = 2}, 6}), resumable);
  driver.run();

  std::vector<GenerateRequest> alone;  // what each amounts to
  std::vector<Started> started;
  const auto begin = [&](engine::SequenceRequest checked, const GenerateRequest& same) {
    alone.push_back(same);
    started.push_back(start(driver, std::move(checked)));
  };
  begin(driver.check(request(3, 100, 0)), request(3, 100, 0));
  GenerateRequest windowed = request(40, 60, 1);
  windowed.config.cache_window = 20;
  begin(driver.check(windowed), windowed);
  GenerateRequest behind = request(2, 50, 2);
  GenerateRequest same = behind;
  same.tokens.insert(same.tokens.begin(), beginning.begin(), beginning.end());
  begin(driver.check(behind, builder.prefix, beginning), same);
  GenerateRequest nothing_new = request(0, 50, 3);
  same = nothing_new;
  same.tokens = beginning;
  begin(driver.check(nothing_new, builder.prefix, beginning), same);
  GenerateRequest deeper = request(2, 40, 4);
  same = deeper;
  same.tokens.insert(same.tokens.begin(), beginning.begin(), beginning.end());
  deeper.resume_loops = 4;
  begin(driver.check(deeper, resumable.prefix, beginning), same);
  engine::SequenceRequest keeping = driver.check(request(18, 30, 5));
  keeping.keep = engine::KeepRequest{engine::PrefixState::final_row, 4};
  begin(std::move(keeping), request(18, 30, 5));

  EXPECT_GE(run(driver), 3);
  for (size_t i = 0; i < started.size(); ++i) {
    SCOPED_TRACE(i);
    expect_as_alone(alone[i], *started[i].client);
  }
  for (const engine::PrefixId id :
       {builder.prefix, resumable.prefix, started.back().client->prefix}) {
    EXPECT_NE(id, 0u);
    driver.engine().drop_prefix(id);
  }
  expect_all_back(driver);
}

TEST_F(PreemptionTest, ADeviceWithoutMemoryIsNoReasonToFailEither) {
  // Wide enough that a slab of pages holds one request of the two.
  const RandomModel wide = write_random_model({.heads = 8, .kv_heads = 8, .head_dim = 64});
  EngineDriver driver(wide.path(), roomy());
  const Started first = start(driver, driver.check(request(4, 120, 1)));
  const Started second = start(driver, driver.check(request(4, 120, 2)));
  driver.engine().step();
  int32_t preemptions = 0;
  while (driver.engine().active() > 0) {
    driver.backend().memory().fail_allocation(first.client->ends == 0 ? 1 : 0);
    preemptions += driver.engine().step().preemptions;
  }
  EXPECT_EQ(preemptions, 1);
  EngineDriver alone(wide.path(), roomy());
  for (const auto& [seed, started] : {std::pair(1, &first), std::pair(2, &second)}) {
    RecordingClient client;
    alone.admit(alone.check(request(4, 120, seed)), client);
    alone.run();
    EXPECT_EQ(started->client->tokens, client.tokens);
    EXPECT_EQ(started->client->logits_hash, client.logits_hash);
  }
  expect_all_back(driver);
}

TEST_F(PreemptionTest, OneThatIsPreemptedCanBeEnded) {
  EngineDriver driver(model_.path(), tight(96, 1));
  const Started first = start(driver, driver.check(request(4, 90, 1)));
  const Started second = start(driver, driver.check(request(4, 90, 2)));
  while (driver.engine().preempted() == 0) driver.engine().step();
  EXPECT_FALSE(driver.engine().has_room(next_rank_));
  EXPECT_TRUE(driver.engine().has_room(0));  // of somebody who goes before it
  EXPECT_EQ(driver.engine().active(), 2u);
  const size_t so_far = second.client->tokens.size();
  EXPECT_GT(so_far, 0u);
  driver.engine().finish(second.id, FinishReason::cancelled);
  EXPECT_EQ(second.client->finished, FinishReason::cancelled);
  EXPECT_EQ(second.client->tokens.size(), so_far);
  EXPECT_EQ(driver.engine().preempted(), 0u);
  EXPECT_TRUE(driver.engine().has_room(next_rank_));
  EXPECT_EQ(run(driver), 0);
  expect_as_alone(request(4, 90, 1), *first.client);
  expect_all_back(driver);
}

TEST_F(PreemptionTest, AllAreToldWhenTheReplicaFails) {
  EngineDriver driver(model_.path(), tight(96, 1));
  std::vector<Started> started;
  for (int32_t i = 0; i < 3; ++i) started.push_back(start(driver, driver.check(request(4, 90, i))));
  while (driver.engine().preempted() == 0) driver.engine().step();
  driver.engine().fail_all({errc::replica_failed, "broken"});
  for (const Started& each : started) {
    EXPECT_EQ(each.client->ends, 1);
    EXPECT_EQ(each.client->error->code, errc::replica_failed);
  }
  EXPECT_EQ(driver.engine().active(), 0u);
  expect_all_back(driver);
}

TEST_F(PreemptionTest, OneThatIsAloneAndFindsNoPageFails) {
  EngineDriver driver(model_.path(), tight(96, 1));
  const Started growing = start(driver, driver.check(request(4, 90, 1)));
  driver.engine().step();
  RecordingClient builder;
  driver.admit(driver.check(PrefixRequest{.tokens = tokens(64, 2), .loops = 4}), builder);
  while (growing.client->ends == 0) driver.engine().step();
  ASSERT_TRUE(growing.client->error);
  EXPECT_EQ(growing.client->error->code, errc::out_of_memory);
  EXPECT_EQ(growing.client->error->detail, "K/V pages: 0 bytes of cache_budget_bytes " +
                                               std::to_string(bytes_for(96)) +
                                               " are left, reuse handles hold the rest");
  driver.engine().drop_prefix(builder.prefix);
  expect_all_back(driver);
}

TEST_F(PreemptionTest, OneThatCannotComeBackFailsWhenNobodyIsLeft) {
  EngineDriver driver(model_.path(), tight(112, 1));
  const Started first = start(driver, driver.check(request(4, 60, 1)));
  const Started second = start(driver, driver.check(request(40, 60, 2)));
  while (driver.engine().preempted() == 0) driver.engine().step();
  RecordingClient builder;
  auto build = driver.check(PrefixRequest{.tokens = tokens(32, 3), .loops = 4});
  ASSERT_TRUE(driver.engine().try_reserve(build));
  build.rank = -1;
  driver.engine().admit(std::move(build), builder);
  run(driver);
  EXPECT_EQ(builder.finished, FinishReason::max_tokens);
  EXPECT_EQ(first.client->finished, FinishReason::max_tokens);
  const auto& end = *second.client;
  EXPECT_EQ(end.ends, 1);
  ASSERT_TRUE(end.error);
  EXPECT_EQ(end.error->code, errc::out_of_memory);
  driver.engine().drop_prefix(builder.prefix);
  expect_all_back(driver);
}

TEST_F(PreemptionTest, ReliefComesBeforePreemption) {
  EngineDriver driver(model_.path(), tight(96, 1));
  // As a queued request would hold it: everything but what the two need to begin.
  engine::SequenceRequest queued = driver.check(request(60, 2, 3));
  const Started first = start(driver, driver.check(request(4, 30, 1)));
  ASSERT_TRUE(driver.engine().try_reserve(queued));
  int asked = 0;
  driver.engine().set_relief([&] {
    ++asked;
    if (queued.funding.pages.bytes() == 0) return false;
    queued.funding = {};
    return true;
  });
  EXPECT_EQ(run(driver), 0);
  EXPECT_EQ(asked, 1);
  expect_as_alone(request(4, 30, 1), *first.client);
  expect_all_back(driver);
}

}  // namespace
}  // namespace tinyloop::testing
