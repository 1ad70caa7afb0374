// What happens when the queue or the budget has no room.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <thread>

#include "tests/actors/handles.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

GenerateRequest waiting(GenerateRequest what) {
  what.when_full = WhenFull::wait;
  return what;
}

std::vector<std::future<GenerateResult>> start(const Model& model, const GenerateRequest& what,
                                               int count) {
  std::vector<std::future<GenerateResult>> futures;
  for (int i = 0; i < count; ++i) futures.push_back(model.async_generate(what, asio::use_future));
  return futures;
}

TEST(Backpressure, AFullMailboxIsOverloadedAtOnce) {
  ServedModel served;  // max_queued: 8
  std::vector<std::future<GenerateResult>> futures;
  {
    const Pause pause(served.model);
    futures = start(served.model, request(2), 8);
    auto refused = served.model.async_generate(request(2), use_outcome());
    const error_code error = error_of(refused);  // while the replica stands still
    EXPECT_TRUE(error == errc::overloaded);
    EXPECT_EQ(error.message(), "overloaded: mailbox holds 8 of 8 requests (max_queued)");
    EXPECT_EQ(served.model.health().replicas[0].queued, 8u);
    EXPECT_EQ(served.model.statistics().rejected, 1u);
  }
  for (auto& future : futures) EXPECT_EQ(future.get().tokens.size(), 7u);
  EXPECT_EQ(served.model.health().replicas[0].queued, 0u);
}

TEST(Backpressure, WaitersGetTheirTurn) {
  ServedModel served;
  std::vector<std::future<GenerateResult>> futures;
  {
    const Pause pause(served.model);
    futures = start(served.model, waiting(request(2)), 50);
    EXPECT_EQ(served.model.health().replicas[0].queued, 50u);
  }
  for (auto& future : futures) EXPECT_EQ(future.get().tokens.size(), 7u);
  EXPECT_EQ(served.model.statistics().completed_ok, 50u);
}

TEST(Backpressure, AWaiterCanBeCancelled) {
  ServedModel served;
  asio::cancellation_signal signal;
  std::vector<std::future<GenerateResult>> futures;
  std::future<Outcome<GenerateResult>> waiter;
  {
    const Pause pause(served.model);
    futures = start(served.model, request(2), 8);
    waiter = served.model.async_generate(
        waiting(request(2)), asio::bind_cancellation_slot(signal.slot(), use_outcome()));
    signal.emit(asio::cancellation_type::terminal);
  }
  EXPECT_EQ(error_of(waiter), asio::error::operation_aborted);
  for (auto& future : futures) EXPECT_EQ(future.get().tokens.size(), 7u);
}

TEST(Backpressure, ABudgetThatCouldNeverHoldTheRequestIsOutOfMemory) {
  const size_t bytes = bytes_of(request(60));
  ModelOptions options = small_options();
  options.cache_budget_bytes = bytes - 1;
  ServedModel served(options);
  for (const auto& what : {request(60), waiting(request(60))}) {
    auto future = served.model.async_generate(what, use_outcome());
    const error_code error = error_of(future);
    EXPECT_TRUE(error == errc::out_of_memory) << error.message();
    const std::string text = error.message();
    EXPECT_NE(text.find(std::to_string(bytes) + " bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("cache_budget_bytes is " + std::to_string(bytes - 1)), std::string::npos)
        << text;
  }
  EXPECT_EQ(served.model.statistics().rejected, 2u);
  EXPECT_EQ(served.model.health().replicas[0].out_of_memory, 2u);
  EXPECT_EQ(served.generate(request(2)).tokens.size(), 7u);
}

TEST(Backpressure, ABudgetInUseIsOverloadedOrWaitedFor) {
  const size_t bytes = bytes_of(request(40));
  ModelOptions options = small_options();
  options.cache_budget_bytes = bytes + bytes / 2;
  ServedModel served(options);
  StepGate gate(served.model);
  auto running = served.model.async_generate(request(40), asio::use_future);
  gate.run(1);
  auto waiter = served.model.async_generate(waiting(request(40, 2)), asio::use_future);
  auto refused = served.model.async_generate(request(40, 3), use_outcome());
  // Would fit now, but must not overtake the one that waits.
  auto small = served.model.async_generate(request(1, 4), use_outcome());
  gate.run(1);
  const error_code error = error_of(refused);
  EXPECT_TRUE(error == errc::overloaded);
  EXPECT_NE(error.message().find("promised to others"), std::string::npos) << error.message();
  EXPECT_TRUE(error_of(small) == errc::overloaded);
  EXPECT_EQ(served.model.health().replicas[0].queued, 1u);
  EXPECT_EQ(served.model.health().replicas[0].free_cache_bytes, bytes / 2);
  gate.open();
  EXPECT_EQ(running.get().tokens.size(), 45u);
  EXPECT_EQ(waiter.get().tokens.size(), 45u);
  EXPECT_EQ(served.model.memory().cache_reserved, 0u);
}

TEST(Backpressure, AHandleThatFindsNoRoomIsNone) {
  ResumeRequest resume;
  resume.prefix.tokens = request(1).tokens;
  resume.max_loops = 64;
  ModelOptions options = small_options();
  options.cache_budget_bytes = bytes_of(request(40));
  ServedModel served(options);
  auto never = served.model.async_build_resume(resume, use_outcome());
  const auto outcome = never.get();
  EXPECT_TRUE(outcome.error == errc::out_of_memory);
  EXPECT_FALSE(outcome);
  PrefixRequest& prefix = resume.prefix;
  const PrefixCache handle = served.model.async_build_prefix(prefix, boost::asio::use_future).get();
  while (prefix.tokens.size() < 44) prefix.tokens.push_back(1);
  auto now = served.model.async_build_prefix(prefix, use_outcome());
  EXPECT_TRUE(error_of(now) == errc::overloaded);
}

// A caller who waits cannot drop the handle that holds what it waits for.
TEST(Backpressure, ABudgetThatHandlesHoldIsWaitedForOrOutOfMemory) {
  PrefixRequest prefix;
  prefix.tokens = request(1).tokens;
  ModelOptions options = small_options();
  options.cache_budget_bytes = bytes_of(request(40));
  ServedModel served(options);
  PrefixCache handle = served.model.async_build_prefix(prefix, asio::use_future).get();
  GenerateRequest patient = request(40);
  patient.when_full = WhenFull::wait_for_requests;
  auto stranded = served.model.async_generate(patient, use_outcome());
  const error_code error = error_of(stranded);
  EXPECT_TRUE(error == errc::out_of_memory);
  EXPECT_NE(error.message().find("reuse handles hold the rest"), std::string::npos)
      << error.message();
  auto waiter = served.model.async_generate(waiting(request(40)), use_outcome());
  auto behind = served.model.async_generate(patient, use_outcome());
  EXPECT_TRUE(error_of(behind) == errc::out_of_memory);  // nobody overtakes the one that waits
  handle = {};
  EXPECT_FALSE(error_of(waiter));
  auto again = served.model.async_generate(patient, use_outcome());
  EXPECT_FALSE(error_of(again));
}

// The handle goes while the last request that uses it runs; what waits for its pages is not told
// that they are lost.
TEST(Backpressure, AHandleDroppedInUseIsWaitedFor) {
  PrefixRequest prefix;
  prefix.tokens = request(1).tokens;
  ModelOptions options = small_options();
  options.cache_budget_bytes = bytes_of(request(40));
  ServedModel served(options);
  PrefixCache handle = served.model.async_build_prefix(prefix, asio::use_future).get();
  StepGate gate(served.model);
  GenerateRequest user;
  user.prefix = handle;
  user.config.max_tokens = 2;
  auto used = served.model.async_generate(user, use_outcome());
  gate.run(1);
  handle = {};
  user.prefix = {};
  GenerateRequest patient = request(40);
  patient.when_full = WhenFull::wait_for_requests;
  auto waiter = served.model.async_generate(patient, use_outcome());
  gate.open();
  EXPECT_FALSE(error_of(used));
  EXPECT_FALSE(error_of(waiter));
}

// The prefix that the first one waits for is held by the second one alone, which waits behind it.
TEST(Backpressure, WhoHoldsAPrefixPassesWhoWaitsForIt) {
  ModelOptions options = small_options();
  options.cache_budget_bytes = bytes_of(request(60));
  ServedModel served(options);
  PrefixCache prefix = build_cache(served.model, prefix_request(16, 4));
  std::vector<std::future<GenerateResult>> futures;
  {
    const Pause pause(served.model);
    futures = start(served.model, waiting(request(60)), 1);
    futures.push_back(served.model.async_generate(waiting(behind(prefix, 4)), asio::use_future));
    prefix = {};
  }
  EXPECT_EQ(futures[0].get().tokens.size(), 65u);
  EXPECT_EQ(futures[1].get().tokens.size(), 25u);
}

// Each holds half of the budget with a prefix that is nobody else's, and needs the other half.
TEST(Backpressure, OfTwoThatStandInEachOthersWayTheLaterOneGivesUp) {
  ModelOptions options = small_options();
  options.cache_budget_bytes = bytes_of(request(60));
  ServedModel served(options);
  std::vector<std::future<Outcome<GenerateResult>>> futures;
  {
    std::vector<PrefixCache> prefixes;
    for (const int32_t seed : {1, 2}) {
      prefixes.push_back(build_cache(served.model, prefix_request(32, 4, 0, seed)));
    }
    const Pause pause(served.model);
    for (const PrefixCache& prefix : prefixes) {
      futures.push_back(served.model.async_generate(waiting(behind(prefix, 20)), use_outcome()));
    }
  }
  EXPECT_EQ(futures[0].get().tokens.size(), 57u);
  EXPECT_TRUE(error_of(futures[1]) == errc::out_of_memory);
}

TEST(Backpressure, MoreThanMaxSequencesWaitTheirTurnInOrder) {
  ModelOptions options = small_options();
  options.max_sequences = 1;
  ServedModel served(options);
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::future<void>> done;
  {
    const Pause pause(served.model);
    for (int i = 0; i < 6; ++i) {
      auto promise = std::make_shared<std::promise<void>>();
      done.push_back(promise->get_future());
      served.model.async_generate(request(2, i), [&, i, promise](error_code, GenerateResult) {
        const std::lock_guard lock(mutex);
        order.push_back(i);
        promise->set_value();
      });
    }
  }
  for (auto& one : done) one.get();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace tinyloop::testing
