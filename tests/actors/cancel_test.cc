// Cancellation and deadlines at each stage of a request's way.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <thread>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;
using std::chrono::hours;
using std::chrono::steady_clock;

auto cancellable(asio::cancellation_signal& signal) {
  return asio::bind_cancellation_slot(signal.slot(), use_outcome());
}

void cancel(asio::cancellation_signal& signal) {
  signal.emit(asio::cancellation_type::all);
}

TEST(Cancel, InTheMailbox) {
  ServedModel served;
  asio::cancellation_signal signal;
  std::future<Outcome<GenerateResult>> future;
  {
    const Pause pause(served.model);
    future = served.model.async_generate(request(5), cancellable(signal));
    cancel(signal);
  }
  EXPECT_EQ(error_of(future), asio::error::operation_aborted);
  const Statistics statistics = served.model.statistics();
  EXPECT_EQ(statistics.accepted, 1u);
  EXPECT_EQ(statistics.completed_cancelled, 1u);
  EXPECT_EQ(statistics.block_rows, 0u);
}

TEST(Cancel, InTheQueueWhileOthersRun) {
  ModelOptions options = small_options();
  options.max_sequences = 1;
  ServedModel served(options);
  StepGate gate(served.model);
  auto running = served.model.async_generate(request(3), asio::use_future);
  gate.run(1);
  asio::cancellation_signal first, second;
  auto queued = served.model.async_generate(request(3), cancellable(first));
  auto behind = served.model.async_generate(request(3, 2), cancellable(second));
  gate.run(1);
  EXPECT_EQ(served.model.health().replicas[0].queued, 2u);
  cancel(first);
  gate.run(2);
  EXPECT_EQ(error_of(queued), asio::error::operation_aborted);  // before the other has ended
  EXPECT_EQ(served.model.health().replicas[0].queued, 1u);
  gate.open();
  EXPECT_EQ(running.get().finish_reason, FinishReason::max_tokens);
  EXPECT_EQ(behind.get().finish_reason, FinishReason::max_tokens);
}

TEST(Cancel, DuringPrefillGivesThePromptAlone) {
  ServedModel served;
  StepGate gate(served.model);
  asio::cancellation_signal signal;
  auto future = served.model.async_generate(request(5), cancellable(signal));
  gate.run(1);
  cancel(signal);
  gate.open();
  const GenerateResult result = future.get();
  EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(result.tokens, request(5).tokens);
}

TEST(Cancel, DuringDecodeGivesTheTokensSoFarAndThePagesBack) {
  ServedModel served;
  const GenerateResult whole = served.generate(request(100));
  StepGate gate(served.model);
  asio::cancellation_signal signal;
  auto future = served.model.async_generate(request(100), cancellable(signal));
  gate.run(13);
  EXPECT_GT(served.model.memory().pages_used, 0u);
  cancel(signal);
  cancel(signal);
  gate.allow(1);
  const GenerateResult result = future.get();  // one step was enough
  EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
  ASSERT_EQ(result.tokens.size(), 8u);
  EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), whole.tokens.begin()));
  EXPECT_EQ(served.model.memory().pages_used, 0u);
  EXPECT_EQ(served.model.memory().cache_reserved, 0u);
  EXPECT_EQ(served.model.statistics().completed_cancelled, 1u);
}

TEST(Cancel, LateAndDoubleCancelsDoNothing) {
  ServedModel served;
  asio::cancellation_signal signal;
  auto future = served.model.async_generate(request(2), cancellable(signal));
  EXPECT_EQ(future.get().finish_reason, FinishReason::max_tokens);
  cancel(signal);
  cancel(signal);
  EXPECT_EQ(served.generate(request(2)).finish_reason, FinishReason::max_tokens);
  // A signal may be used again for the next request, and outlive the engine.
  auto next = served.model.async_generate(request(2, 3), cancellable(signal));
  EXPECT_EQ(next.get().finish_reason, FinishReason::max_tokens);
  { const ServedModel gone = std::move(served); }
  cancel(signal);
}

TEST(Cancel, OfAScore) {
  ServedModel served;
  StepGate gate(served.model);
  ScoreRequest score;
  score.tokens = request(1).tokens;
  asio::cancellation_signal signal;
  auto future = served.model.async_score(score, cancellable(signal));
  gate.run(1);
  cancel(signal);
  gate.open();
  const ScoreResult result = future.get();
  EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
  EXPECT_TRUE(result.logprobs.empty());
}

// A cancel from another thread against the completion: one outcome, and no harm done.
TEST(Cancel, RacingTheCompletion) {
  ServedModel served;
  for (int round = 0; round < 100; ++round) {
    asio::cancellation_signal signal;
    auto future = served.model.async_generate(request(1 + round % 3, round), cancellable(signal));
    std::thread other([&] { cancel(signal); });
    const auto outcome = future.get();
    EXPECT_TRUE(!outcome.error || outcome.error == asio::error::operation_aborted);
    EXPECT_TRUE(outcome.finish_reason == FinishReason::cancelled ||
                outcome.finish_reason == FinishReason::max_tokens);
    other.join();
  }
  const Statistics statistics = served.model.statistics();
  EXPECT_EQ(statistics.accepted, 100u);
  EXPECT_EQ(statistics.completed_ok + statistics.completed_cancelled, 100u);
}

TEST(Deadline, PassedBeforeTheBegin) {
  ServedModel served;
  GenerateRequest late = request(5);
  late.config.deadline = steady_clock::now() - hours(1);
  auto future = served.model.async_generate(late, use_outcome());
  const error_code error = error_of(future);
  EXPECT_TRUE(error == errc::deadline_exceeded);
  EXPECT_NE(error.message().find("had not begun at its deadline"), std::string::npos);
  EXPECT_EQ(served.model.statistics().completed_deadline, 1u);
}

TEST(Deadline, PassesInTheQueue) {
  ModelOptions options = small_options();
  options.max_sequences = 1;
  ServedModel served(options);
  StepGate gate(served.model);
  auto running = served.model.async_generate(request(3), asio::use_future);
  gate.run(1);
  GenerateRequest soon = request(3);
  soon.config.deadline = steady_clock::now() + std::chrono::milliseconds(30);
  GenerateRequest later = request(3);
  later.config.deadline = steady_clock::now() + hours(1);
  auto queued = served.model.async_generate(soon, use_outcome());
  auto in_time = served.model.async_generate(later, asio::use_future);
  gate.run(1);  // both are in the queue now
  while (steady_clock::now() <= *soon.config.deadline) std::this_thread::yield();
  gate.run(1);
  EXPECT_TRUE(error_of(queued) == errc::deadline_exceeded);
  gate.open();
  EXPECT_EQ(running.get().finish_reason, FinishReason::max_tokens);
  EXPECT_EQ(in_time.get().finish_reason, FinishReason::max_tokens);
}

TEST(Deadline, PassesDuringDecode) {
  ServedModel served;
  StepGate gate(served.model);
  GenerateRequest soon = request(100);
  soon.config.deadline = steady_clock::now() + std::chrono::milliseconds(500);
  auto future = served.model.async_generate(soon, asio::use_future);
  gate.run(5);  // begun in time: the first token has been sampled
  while (steady_clock::now() <= *soon.config.deadline) std::this_thread::yield();
  gate.allow(1);
  const GenerateResult result = future.get();
  EXPECT_EQ(result.finish_reason, FinishReason::deadline);
  EXPECT_EQ(result.tokens.size(), 6u);
  EXPECT_EQ(served.model.statistics().completed_deadline, 1u);
}

}  // namespace
}  // namespace tinyloop::testing
