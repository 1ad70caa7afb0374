// Requests that outgrow the budget, as their callers see it.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

// Room for `share` requests like `what`, each promised pages for few of its tokens.
ModelOptions tight(const GenerateRequest& what, double share) {
  ModelOptions options = small_options();
  options.cache_budget_bytes = size_t(share * double(bytes_of(what)));
  options.reserve_tokens = 4;
  return options;
}

GenerateRequest waiting(GenerateRequest what) {
  what.when_full = WhenFull::wait;
  return what;
}

TEST(Preemption, NobodyFailsAndNothingChanges) {
  const ServedModel alone;
  const ServedModel served(tight(request(90), 1.5));
  std::vector<std::future<Outcome<GenerateResult>>> futures;
  for (int32_t i = 0; i < 8; ++i) {
    futures.push_back(served.model.async_generate(waiting(request(90, i)), use_outcome()));
  }
  for (int32_t i = 0; i < 8; ++i) {
    const auto outcome = futures[size_t(i)].get();
    EXPECT_FALSE(outcome.error) << outcome.error.message();
    EXPECT_EQ(outcome.tokens, alone.generate(request(90, i)).tokens);
  }
  const Statistics statistics = served.model.statistics();
  EXPECT_GT(statistics.preemptions, 0u);
  EXPECT_EQ(statistics.completed_ok, 8u);
  EXPECT_EQ(statistics.generated_tokens, 8u * 90);
  EXPECT_EQ(served.model.memory().cache_reserved, 0u);
}

TEST(Preemption, AStreamHasNoChunkTwice) {
  const ServedModel alone;
  const ServedModel served(tight(request(90), 1.5));
  const auto older = waiting(request(90, 1)), newer = waiting(request(90, 2));
  StepGate gate(served.model);
  auto first = served.model.async_generate(older, use_outcome());
  gate.run(1);
  std::vector<int32_t> tokens = newer.tokens;
  auto second = served.model.async_generate(
      newer,
      [&](const StreamChunk& chunk) {
        tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
      },
      use_outcome());
  gate.open();
  EXPECT_FALSE(error_of(first));
  const auto outcome = second.get();
  EXPECT_FALSE(outcome.error);
  EXPECT_EQ(outcome.tokens, alone.generate(newer).tokens);
  EXPECT_EQ(tokens, outcome.tokens);
  EXPECT_EQ(served.model.statistics().preemptions, 1u);
}

TEST(Preemption, PromisesToTheQueueGoFirst) {
  ModelOptions options = tight(request(90), 1.25);
  options.max_sequences = 1;
  const ServedModel served(options);
  StepGate gate(served.model);
  auto running = served.model.async_generate(request(90, 1), use_outcome());
  gate.run(1);
  // Accepted, for there is room for its beginning.
  auto queued = served.model.async_generate(request(90, 2), use_outcome());
  gate.open();
  EXPECT_FALSE(error_of(running));
  EXPECT_FALSE(error_of(queued));
  EXPECT_EQ(served.model.statistics().preemptions, 0u);
}

TEST(Preemption, PrefixesThatCanBeComputedAgainGoFirst) {
  const ServedModel served(tight(request(90), 1.25));
  const PrefixPool pool({.capacity = 4});
  PrefixRequest prefix{.tokens = std::vector<int32_t>(32, 7)};
  EXPECT_FALSE(served.model.async_register_prefix(pool, prefix, use_error()).get());
  EXPECT_EQ(pool.statistics().entries, 1u);
  EXPECT_FALSE(served.model.async_generate(request(90), use_error()).get());
  EXPECT_EQ(pool.statistics().entries, 0u);
  EXPECT_EQ(served.model.statistics().preemptions, 0u);
}

// There is no room for newcomers while somebody who was to run has none.
TEST(Preemption, IsAnOverloadToNewcomers) {
  const ServedModel served(tight(request(90), 1.5));
  StepGate gate(served.model);
  auto first = served.model.async_generate(request(90, 1), use_outcome());
  auto second = served.model.async_generate(request(90, 2), use_outcome());
  while (served.model.statistics().preemptions == 0) gate.run(1);
  auto refused = served.model.async_generate(request(1, 3), use_outcome());
  auto patient = served.model.async_generate(waiting(request(1, 4)), use_outcome());
  gate.run(1);
  EXPECT_TRUE(error_of(refused) == errc::overloaded);
  EXPECT_EQ(served.model.health().replicas[0].active, 2u);
  gate.open();
  for (auto* future : {&first, &second, &patient}) EXPECT_FALSE(error_of(*future));
}

TEST(Preemption, CanBeCancelledAndExpires) {
  const ServedModel served(tight(request(90), 1.5));
  StepGate gate(served.model);
  boost::asio::cancellation_signal signal;
  auto first = served.model.async_generate(request(90, 1), use_outcome());
  auto second = served.model.async_generate(
      request(90, 2), boost::asio::bind_cancellation_slot(signal.slot(), use_outcome()));
  while (served.model.statistics().preemptions == 0) gate.run(1);
  signal.emit(boost::asio::cancellation_type::terminal);
  gate.run(2);
  const auto cancelled = second.get();
  EXPECT_FALSE(cancelled.error);
  EXPECT_EQ(cancelled.finish_reason, FinishReason::cancelled);
  EXPECT_GT(cancelled.tokens.size(), cancelled.prompt_tokens);
  gate.open();
  EXPECT_FALSE(error_of(first));
  EXPECT_EQ(served.model.memory().cache_reserved, 0u);
}

TEST(Preemption, WhoFindsNoPageAloneIsOutOfMemory) {
  const ServedModel served(tight(request(90), 1.0));
  StepGate gate(served.model);
  auto growing = served.model.async_generate(request(90), use_outcome());
  gate.run(1);
  auto build = served.model.async_build_prefix({.tokens = std::vector<int32_t>(20, 3)},
                                               boost::asio::use_future);
  gate.open();
  const PrefixCache handle = build.get();
  const auto outcome = growing.get();
  EXPECT_TRUE(outcome.error == errc::out_of_memory);
  EXPECT_NE(outcome.error.message().find("reuse handles hold the rest"), std::string::npos)
      << outcome.error.message();
  EXPECT_EQ(served.model.health().replicas[0].out_of_memory, 1u);
  EXPECT_EQ(served.generate(request(2)).tokens.size(), 7u);
}

}  // namespace
}  // namespace tinyloop::testing
