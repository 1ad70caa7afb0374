#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

StreamChunk next(TokenStream& stream) {
  return stream.async_next(asio::use_future).get();
}

error_code next_error(TokenStream& stream) {
  return stream.async_next(use_error()).get();
}

// Everything up to the end of the stream.
StreamChunk read_all(TokenStream& stream) {
  StreamChunk all;
  while (!all.summary) {
    StreamChunk chunk = next(stream);
    EXPECT_TRUE(!chunk.tokens.empty() || chunk.summary);
    all.tokens.insert(all.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    all.text += chunk.text;
    all.logprobs.insert(all.logprobs.end(), chunk.logprobs.begin(), chunk.logprobs.end());
    all.summary = chunk.summary;
  }
  return all;
}

std::vector<int32_t> generated(const GenerateResult& result) {
  return {result.tokens.begin() + ptrdiff_t(result.prompt_tokens), result.tokens.end()};
}

TEST(Stream, GivesWhatGenerateGives) {
  ServedModel served;
  GenerateRequest what = request(30);
  what.config.logprobs = 2;
  const GenerateResult whole = served.generate(what);
  TokenStream stream = served.model.stream(what);
  const StreamChunk all = read_all(stream);
  EXPECT_EQ(all.tokens, generated(whole));
  EXPECT_EQ(all.text, whole.text);
  ASSERT_EQ(all.logprobs.size(), 30u);
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(all.logprobs[i].chosen.logprob, whole.logprobs[i].chosen.logprob);
    ASSERT_EQ(all.logprobs[i].top.size(), 2u);
    EXPECT_EQ(all.logprobs[i].top[1].token, whole.logprobs[i].top[1].token);
  }
  EXPECT_EQ(all.summary->prompt_tokens, 5u);
  EXPECT_EQ(all.summary->generated_tokens, 30u);
  EXPECT_EQ(all.summary->loops, whole.loops);
  EXPECT_EQ(next_error(stream), asio::error::eof);
  EXPECT_EQ(next_error(stream), asio::error::eof);
}

TEST(Stream, ATokenComesAsSoonAsItIsSampled) {
  ServedModel served;
  StepGate gate(served.model);
  TokenStream stream = served.model.stream(request(10));
  auto first = stream.async_next(asio::use_future);
  gate.run(4);
  EXPECT_EQ(first.get().tokens.size(), 1u);  // the replica stands before the fifth pass
  gate.run(8);
  EXPECT_EQ(next(stream).tokens.size(), 2u);  // two at once
  gate.open();
  EXPECT_EQ(read_all(stream).tokens.size(), 7u);
}

TEST(Stream, ASlowReaderNeitherBlocksNorLoses) {
  ServedModel served;
  const GenerateResult whole = served.generate(request(200));
  TokenStream stream = served.model.stream(request(200));
  EXPECT_EQ(served.generate(request(200, 2)).tokens.size(), 205u);  // nobody reads meanwhile
  while (served.model.health().replicas[0].active != 0) next(stream);
  stream.cancel();  // after the end: nothing
  TokenStream again = served.model.stream(request(200));
  EXPECT_EQ(read_all(again).tokens, generated(whole));
}

TEST(Stream, ASecondReaderIsBusy) {
  ServedModel served;
  StepGate gate(served.model);
  TokenStream stream = served.model.stream(request(3));
  auto first = stream.async_next(asio::use_future);
  EXPECT_TRUE(next_error(stream) == errc::stream_busy);
  gate.open();
  EXPECT_FALSE(first.get().tokens.empty());
}

TEST(Stream, ACancelledNextLosesNoToken) {
  ServedModel served;
  const GenerateResult whole = served.generate(request(6));
  StepGate gate(served.model);
  TokenStream stream = served.model.stream(request(6));
  asio::cancellation_signal signal;
  auto first = stream.async_next(asio::bind_cancellation_slot(signal.slot(), use_outcome()));
  signal.emit(asio::cancellation_type::total);
  EXPECT_EQ(error_of(first), asio::error::operation_aborted);
  auto second = stream.async_next(asio::use_future);
  signal.emit(asio::cancellation_type::total);  // late: must not hit the second
  gate.run(4);
  EXPECT_EQ(second.get().tokens, std::vector<int32_t>{generated(whole)[0]});
  gate.open();
  EXPECT_EQ(read_all(stream).tokens.size(), 5u);
}

TEST(Stream, CancelLeavesTheTokensAndASummary) {
  ServedModel served;
  StepGate gate(served.model);
  TokenStream stream = served.model.stream(request(100));
  gate.run(9);
  stream.cancel();
  stream.cancel();
  gate.allow(1);
  const StreamChunk all = read_all(stream);
  EXPECT_EQ(all.tokens.size(), 2u);
  EXPECT_EQ(all.summary->finish_reason, FinishReason::cancelled);
  EXPECT_EQ(all.summary->generated_tokens, 2u);
}

TEST(Stream, DroppingItCancelsTheRequestAndEndsTheReader) {
  ServedModel served;
  StepGate gate(served.model);
  std::future<Outcome<StreamChunk>> outstanding;
  {
    TokenStream stream = served.model.stream(request(100));
    outstanding = stream.async_next(use_outcome());
    gate.run(1);
  }
  EXPECT_EQ(error_of(outstanding), asio::error::operation_aborted);
  gate.open();
  Statistics statistics;
  do statistics = served.model.statistics();
  while (statistics.completed_cancelled == 0);
  EXPECT_EQ(statistics.generated_tokens, 0u);
  EXPECT_EQ(served.model.memory().pages_used, 0u);
}

TEST(Stream, MovingReplacesAndEmpties) {
  ServedModel served;
  TokenStream first = served.model.stream(request(3));
  TokenStream second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(next_error(first), asio::error::eof);
  second = served.model.stream(request(4));
  EXPECT_EQ(read_all(second).tokens.size(), 4u);
  second.reset();
  EXPECT_FALSE(second);
}

TEST(Stream, ErrorsComeOutOnceThenTheEnd) {
  ServedModel served;
  TokenStream wrong = served.model.stream(request(0));
  EXPECT_TRUE(next_error(wrong) == errc::invalid_argument);
  EXPECT_EQ(next_error(wrong), asio::error::eof);
  TokenStream closed = Model().stream(request(1));
  EXPECT_TRUE(next_error(closed) == errc::model_closed);
  EXPECT_EQ(next_error(closed), asio::error::eof);
  GenerateRequest late = request(3);
  late.config.deadline = std::chrono::steady_clock::now() - std::chrono::hours(1);
  TokenStream expired = served.model.stream(late);
  EXPECT_TRUE(next_error(expired) == errc::deadline_exceeded);
  EXPECT_EQ(next_error(expired), asio::error::eof);
}

TEST(Stream, TokensBeforeAFailureAreDelivered) {
  ServedModel served;
  StepGate gate(served.model);
  TokenStream stream = served.model.stream(request(100));
  gate.run(5);
  visit_replica(served.model, [](engine::BatchEngine&) { throw std::runtime_error("broken"); });
  gate.open();
  EXPECT_EQ(next(stream).tokens.size(), 1u);
  const error_code error = next_error(stream);
  EXPECT_TRUE(error == errc::replica_failed);
  EXPECT_NE(error.message().find("broken"), std::string::npos);
  EXPECT_EQ(next_error(stream), asio::error::eof);
}

}  // namespace
}  // namespace tinyloop::testing
