// Where and when handlers run.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <thread>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

// What a handler saw.
struct Seen {
  std::string thread;
  error_code error;
  bool inside_call = false;
};

// Starts `start(handler)` and says what its handler saw.
template <class Start>
Seen observe(Start start) {
  static thread_local bool inside = false;
  std::promise<Seen> promise;
  inside = true;
  start([&](error_code error, auto&&...) { promise.set_value({thread_name(), error, inside}); });
  inside = false;
  return promise.get_future().get();
}

TEST(Completion, HandlersWithoutAnExecutorRunOnTheEnginesThread) {
  ServedModel served;
  const Seen ok = observe([&](auto handler) { served.model.async_generate(request(2), handler); });
  EXPECT_EQ(ok.thread, "tinyloop-done");
  EXPECT_FALSE(ok.error);
  const Seen bad = observe([&](auto handler) { served.model.async_generate(request(0), handler); });
  EXPECT_EQ(bad.thread, "tinyloop-done");
  EXPECT_TRUE(bad.error == errc::invalid_argument);
  EXPECT_FALSE(bad.inside_call);
}

// Errors that are known at once must still not come inside the call, not even if the caller is on
// the very thread that the handler will run on.
TEST(Completion, NeverInsideTheInitiatingCall) {
  ServedModel served;
  std::promise<bool> order_kept;
  asio::post(served.engine.get_executor(), [&] {
    auto returned = std::make_shared<bool>(false);
    served.model.async_generate(request(0), [&, returned](error_code error, GenerateResult) {
      order_kept.set_value(*returned && error == errc::invalid_argument);
    });
    *returned = true;
  });
  EXPECT_TRUE(order_kept.get_future().get());
}

TEST(Completion, TheOwnersExecutorStandsInForTheEnginesThread) {
  asio::io_context io;
  EngineOptions options = quiet();
  options.executor = io.get_executor();
  ServedModel served(small_options(), options);
  EXPECT_EQ(served.engine.get_executor(), io.get_executor());
  EXPECT_EQ(served.model.get_executor(), io.get_executor());
  int handlers = 0;
  const auto count = [&](error_code, auto&&...) {
    ++handlers;
    EXPECT_EQ(thread_name(), "main-test");
  };
  const std::string name = thread_name();
  pthread_setname_np(pthread_self(), "main-test");
  served.model.async_generate(request(2), count);
  served.model.async_generate(request(0), count);
  served.model.async_trim(count);
  io.run();
  pthread_setname_np(pthread_self(), name.c_str());
  EXPECT_EQ(handlers, 3);
}

TEST(Completion, RunWaitsForWorkThatHasNotBegun) {
  ServedModel served;
  asio::io_context io;
  bool ran = false;
  auto pause = std::make_unique<Pause>(served.model);
  served.model.async_generate(
      request(2), asio::bind_executor(io, [&](error_code, GenerateResult) { ran = true; }));
  EXPECT_EQ(io.poll(), 0u);
  EXPECT_FALSE(io.stopped());
  pause.reset();
  io.run();
  EXPECT_TRUE(ran);
}

TEST(Completion, AnExceptionOutOfAHandlerIsLoggedAndGoesNoFurther) {
  std::mutex mutex;
  std::vector<std::string> lines;
  EngineOptions options;
  options.log = [&](LogLevel level, std::string_view line) {
    const std::lock_guard lock(mutex);
    if (level == LogLevel::error) lines.emplace_back(line);
  };
  {
    ServedModel served(small_options(), options);
    served.model.async_generate(request(1), [](error_code, GenerateResult) {
      throw std::runtime_error("thrown by the test");
    });
    EXPECT_EQ(served.generate(request(1)).tokens.size(), 6u);
    EXPECT_EQ(observe([&](auto h) { served.model.async_trim(h); }).thread, "tinyloop-done");
  }
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("thrown by the test"), std::string::npos);
}

TEST(Completion, ThreadHooksRunOnEachThread) {
  std::atomic<int> started{0}, stopped{0};
  EngineOptions options = quiet();
  options.on_thread_start = [&] { ++started; };
  options.on_thread_stop = [&] {
    ++stopped;
    throw std::runtime_error("of no consequence");
  };
  {
    ServedModel served(small_options(), options);
    EXPECT_EQ(served.generate(request(1)).tokens.size(), 6u);
  }
  EXPECT_EQ(started.load(), 3);  // the replica's and the engine's two
  EXPECT_EQ(stopped.load(), 3);
}

TEST(Completion, ChunksComeInOrderOnTheHandlersExecutorBeforeTheHandler) {
  ServedModel served;
  const GenerateResult whole = served.generate(request(20));
  asio::io_context io;
  std::vector<int32_t> tokens = request(20).tokens;
  std::string text;
  int summaries = 0;
  GenerateResult result;
  served.model.async_generate(
      request(20),
      [&](const StreamChunk& chunk) {
        tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
        text += chunk.text;
        summaries += chunk.summary.has_value();
        EXPECT_TRUE(result.tokens.empty());
      },
      asio::bind_executor(io, [&](error_code error, GenerateResult done) {
        EXPECT_FALSE(error);
        result = std::move(done);
      }));
  io.run();
  EXPECT_EQ(tokens, whole.tokens);
  EXPECT_EQ(text, whole.text);
  EXPECT_EQ(summaries, 1);
  EXPECT_EQ(result.tokens, whole.tokens);
  EXPECT_EQ(result.text, whole.text);
  EXPECT_EQ(result.prompt_tokens, whole.prompt_tokens);
  EXPECT_EQ(result.loops, whole.loops);
}

TEST(Completion, AnExceptionOutOfOnChunkCancelsTheRequest) {
  ServedModel served;
  StepGate gate(served.model);
  int chunks = 0;
  auto future = served.model.async_generate(
      request(200),
      [&](const StreamChunk&) {
        if (++chunks == 1) throw std::runtime_error("enough");
      },
      asio::use_future);
  gate.open();
  const GenerateResult result = future.get();
  EXPECT_EQ(chunks, 1);
  EXPECT_GE(result.tokens.size(), 6u);
  EXPECT_TRUE(result.finish_reason == FinishReason::cancelled || result.tokens.size() == 205u);
}

TEST(Completion, AWrongRequestWithChunksGivesItsError) {
  ServedModel served;
  auto future = served.model.async_generate(
      request(0), [](const StreamChunk&) { FAIL() << "no chunk was expected"; }, use_outcome());
  EXPECT_TRUE(error_of(future) == errc::invalid_argument);
  auto empty = Model().async_generate(
      request(1), [](const StreamChunk&) { FAIL() << "no chunk was expected"; }, use_outcome());
  EXPECT_TRUE(error_of(empty) == errc::model_closed);
}

TEST(Completion, TheDefaultLogGoesToStderrFromWarningsUp) {
  ::testing::internal::CaptureStderr();
  {
    Engine engine;
    Model model = engine.load(small_model().path(), small_options());
    visit_replica(model, [](engine::BatchEngine&) { throw std::runtime_error("for the log"); });
    auto future = model.async_generate(request(1), use_outcome());
    EXPECT_TRUE(error_of(future) == errc::replica_failed);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("for the log"), std::string::npos) << log;
}

}  // namespace
}  // namespace tinyloop::testing
