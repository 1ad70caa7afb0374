// Every kind of completion token. The only test that includes coroutines: they compile slowly.
#include <gtest/gtest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <thread>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;
using asio::experimental::awaitable_operators::operator||;

// Runs a coroutine to its end and passes on what it throws.
template <class Body>
void run(Body body) {
  asio::io_context io;
  std::exception_ptr failure;
  asio::co_spawn(io, body(), [&](std::exception_ptr error) { failure = error; });
  io.run();
  if (failure) std::rethrow_exception(failure);
}

// ThreadSanitizer would report what is no race.
void skip_under_tsan([[maybe_unused]] const char* why) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << why;
#endif
}

TEST(CompletionTokens, FutureGivesTheResultOrThrows) {
  skip_under_tsan("the reference count of a thrown exception is inside libstdc++.so");
  if (IsSkipped()) return;
  ServedModel served;
  const GenerateResult result = served.model.async_generate(request(3), asio::use_future).get();
  EXPECT_EQ(result.tokens.size(), 8u);
  EXPECT_EQ(result.prompt_tokens, 5u);
  EXPECT_EQ(result.finish_reason, FinishReason::max_tokens);
  auto wrong = served.model.async_generate(request(-1), asio::use_future);
  try {
    wrong.get();
    FAIL() << "no exception";
  } catch (const boost::system::system_error& error) {
    EXPECT_TRUE(error.code() == errc::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("max_tokens: -1"), std::string::npos) << error.what();
  }
}

TEST(CompletionTokens, CallbackBoundToAnExecutor) {
  ServedModel served;
  asio::io_context io;
  std::thread::id ran_on;
  served.model.async_generate(request(2),
                              asio::bind_executor(io, [&](error_code error, GenerateResult result) {
                                EXPECT_FALSE(error);
                                EXPECT_EQ(result.tokens.size(), 7u);
                                ran_on = std::this_thread::get_id();
                              }));
  io.run();  // stays until the handler has run
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(CompletionTokens, MoveOnlyHandler) {
  ServedModel served;
  std::promise<size_t> promise;
  auto future = promise.get_future();
  served.model.async_generate(
      request(2), [promise = std::move(promise)](error_code, GenerateResult result) mutable {
        promise.set_value(result.tokens.size());
      });
  EXPECT_EQ(future.get(), 7u);
}

TEST(CompletionTokens, DeferredStartsWhenCalled) {
  ServedModel served;
  auto operation = served.model.async_generate(request(2), asio::deferred);
  EXPECT_EQ(served.model.statistics().accepted, 0u);
  EXPECT_EQ(std::move(operation)(asio::use_future).get().tokens.size(), 7u);
  EXPECT_EQ(served.model.statistics().accepted, 1u);
}

TEST(CompletionTokens, Awaitable) {
  ServedModel served;
  run([&]() -> asio::awaitable<void> {
    const auto result = co_await served.model.async_generate(request(2), asio::use_awaitable);
    EXPECT_EQ(result.tokens.size(), 7u);
    ScoreRequest score;
    score.tokens = result.tokens;
    const auto scores = co_await served.model.async_score(score, asio::use_awaitable);
    EXPECT_EQ(scores.logprobs.size(), 6u);
    auto [error, none] =
        co_await served.model.async_generate(request(-1), asio::as_tuple(asio::use_awaitable));
    EXPECT_TRUE(error == errc::invalid_argument);
    error_code redirected;
    co_await served.model.async_generate(request(100000),
                                         asio::redirect_error(asio::use_awaitable, redirected));
    EXPECT_TRUE(redirected == errc::invalid_argument);
    co_await served.model.async_trim(asio::deferred);
    co_await served.model.async_unload(ShutdownMode::drain, asio::use_awaitable);
  });
}

TEST(CompletionTokens, LoadAndShutdownAwaited) {
  Engine engine(quiet());
  run([&]() -> asio::awaitable<void> {
    Model model =
        co_await engine.async_load(small_model().path(), small_options(), asio::use_awaitable);
    EXPECT_EQ((co_await model.async_generate(request(1), asio::use_awaitable)).tokens.size(), 6u);
    co_await engine.async_shutdown(ShutdownMode::drain, asio::use_awaitable);
    auto [error, none] =
        co_await model.async_generate(request(1), asio::as_tuple(asio::use_awaitable));
    EXPECT_TRUE(error == errc::shutdown) << error.message();
  });
}

TEST(CompletionTokens, AwaitedStream) {
  ServedModel served;
  const GenerateResult whole = served.generate(request(20));
  run([&]() -> asio::awaitable<void> {
    TokenStream stream = served.model.stream(request(20));
    std::vector<int32_t> tokens;
    std::string text;
    for (bool more = true; more;) {
      const StreamChunk chunk = co_await stream.async_next(asio::use_awaitable);
      EXPECT_TRUE(!chunk.tokens.empty() || chunk.summary);
      tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
      text += chunk.text;
      more = !chunk.summary;
    }
    EXPECT_EQ(tokens, std::vector<int32_t>(whole.tokens.begin() + 5, whole.tokens.end()));
    EXPECT_EQ(text, whole.text);
    auto [error, none] = co_await stream.async_next(asio::as_tuple(asio::use_awaitable));
    EXPECT_EQ(error, asio::error::eof);
  });
}

// A timer that wins cancels the request; the tokens so far are not an error.
TEST(CompletionTokens, TimerAgainstRequest) {
  ServedModel served;
  StepGate gate(served.model);
  run([&]() -> asio::awaitable<void> {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    timer.expires_at(asio::steady_timer::time_point::min());
    auto both = served.model.async_generate(request(200), asio::use_awaitable) ||
                timer.async_wait(asio::use_awaitable);
    gate.open();
    const auto first = co_await std::move(both);
    EXPECT_EQ(first.index(), 1u);
  });
  EXPECT_EQ(served.model.statistics().completed_cancelled, 1u);
}

TEST(CompletionTokens, RequestAgainstTimer) {
  ServedModel served;
  run([&]() -> asio::awaitable<void> {
    asio::steady_timer timer(co_await asio::this_coro::executor, std::chrono::hours(1));
    const auto first = co_await (served.model.async_generate(request(2), asio::use_awaitable) ||
                                 timer.async_wait(asio::use_awaitable));
    EXPECT_EQ(first.index(), 0u);
    EXPECT_EQ(std::get<0>(first).tokens.size(), 7u);
  });
}

TEST(CompletionTokens, FutureWithACancellationSlot) {
  ServedModel served;
  StepGate gate(served.model);
  asio::cancellation_signal signal;
  auto future = served.model.async_generate(
      request(200), asio::bind_cancellation_slot(signal.slot(), asio::use_future));
  gate.run(9);  // two tokens, and a pass of the third
  signal.emit(asio::cancellation_type::terminal);
  gate.open();
  const GenerateResult result = future.get();
  EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
  EXPECT_GE(result.tokens.size(), 7u);
  EXPECT_LE(result.tokens.size(), 8u);
}

TEST(CompletionTokens, StrandAndThreadPool) {
  asio::thread_pool pool(2);  // outlives the engine
  ServedModel served;
  auto strand = asio::make_strand(pool);
  std::promise<bool> on_strand;
  served.model.async_generate(request(2),
                              asio::bind_executor(strand, [&](error_code, GenerateResult) {
                                on_strand.set_value(strand.running_in_this_thread());
                              }));
  EXPECT_TRUE(on_strand.get_future().get());
  pool.join();
}

}  // namespace
}  // namespace tinyloop::testing
