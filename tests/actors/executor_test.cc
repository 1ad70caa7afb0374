// Executors of the caller's: of every kind, stopped, and those that fail.
#include <gtest/gtest.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <thread>

#include "tests/actors/plain_executor.h"
#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

// A handler that can be watched: `alive` as long as the handler or a copy of it exists.
class Watched {
 public:
  auto handler() {
    return [held = alive_, calls = calls_](error_code, auto&&...) { ++*calls; };
  }
  bool exists() const { return alive_.use_count() > 1; }
  int calls() const { return *calls_; }

 private:
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  std::shared_ptr<std::atomic<int>> calls_ = std::make_shared<std::atomic<int>>(0);
};

template <class Executor>
void expect_all_kinds_complete_on(const ServedModel& served, const Executor& executor) {
  std::promise<size_t> whole, chunked, scored, trimmed, streamed;
  const auto on = [&](auto handler) { return asio::bind_executor(executor, std::move(handler)); };
  served.model.async_generate(request(5), on([&](error_code, GenerateResult result) {
                                whole.set_value(result.tokens.size());
                              }));
  served.model.async_generate(
      request(5), [](const StreamChunk&) {},
      on([&](error_code, GenerateResult result) { chunked.set_value(result.tokens.size()); }));
  ScoreRequest score;
  score.tokens = request(1).tokens;
  served.model.async_score(
      score, on([&](error_code, ScoreResult result) { scored.set_value(result.logprobs.size()); }));
  served.model.async_trim(on([&](error_code error, size_t) { trimmed.set_value(!error); }));
  TokenStream stream = served.model.stream(request(1));
  stream.async_next(on([&](error_code, StreamChunk chunk) {  // a request of one token
    streamed.set_value(chunk.tokens.size());
  }));
  EXPECT_EQ(whole.get_future().get(), 10u);
  EXPECT_EQ(chunked.get_future().get(), 10u);
  EXPECT_EQ(scored.get_future().get(), 4u);
  EXPECT_EQ(trimmed.get_future().get(), 1u);
  EXPECT_EQ(streamed.get_future().get(), 1u);
}

TEST(Executors, OfEveryKindAreServed) {
  asio::thread_pool pool(2);  // outlives the engine
  ServedModel served;
  expect_all_kinds_complete_on(served, pool.get_executor());
  expect_all_kinds_complete_on(served, asio::make_strand(pool));
  expect_all_kinds_complete_on(served, asio::any_io_executor(asio::make_strand(pool)));
  expect_all_kinds_complete_on(served, asio::make_strand(served.engine.get_executor()));
  expect_all_kinds_complete_on(served, asio::any_io_executor(PlainExecutor(pool)));
  asio::io_context io;
  auto work = asio::make_work_guard(io);
  std::thread runner([&] { io.run(); });
  expect_all_kinds_complete_on(served, io.get_executor());
  expect_all_kinds_complete_on(served, asio::any_io_executor(io.get_executor()));
  expect_all_kinds_complete_on(served,
                               asio::require(io.get_executor(), asio::execution::blocking.never));
  work.reset();
  runner.join();
}

// By Asio's rule the exception leaves run(); what stands behind it comes with the next run().
TEST(Executors, AnExceptionLeavesTheCallersRun) {
  ServedModel served;
  asio::io_context io;
  int handlers = 0;
  for (int i = 0; i < 3; ++i)
    served.model.async_generate(request(2, i),
                                asio::bind_executor(io, [&](error_code, GenerateResult) {
                                  ++handlers;
                                  throw std::runtime_error("by the test");
                                }));
  for (int i = 1; i <= 3; ++i) {
    EXPECT_THROW(io.run(), std::runtime_error);
    EXPECT_EQ(handlers, i);
  }
  EXPECT_EQ(io.run(), 0u);
}

// The io_context never runs again: handlers are lost with it, and with nothing else.
TEST(Executors, AStoppedContextTakesItsHandlersAlong) {
  auto io = std::make_unique<asio::io_context>();
  Watched whole, chunked, trimmed, read, unloaded;
  Engine engine(quiet());
  TokenStream stream;
  std::weak_ptr<actors::ModelState> state;
  {
    const Model model = engine.load(small_model().path(), small_options());
    state = model.state();
    io->stop();
    model.async_generate(request(3), asio::bind_executor(*io, whole.handler()));
    model.async_generate(
        request(200), [](const StreamChunk&) { FAIL() << "on a stopped context"; },
        asio::bind_executor(*io, chunked.handler()));
    model.async_trim(asio::bind_executor(*io, trimmed.handler()));
    stream = model.stream(request(3));
    stream.async_next(asio::bind_executor(*io, read.handler()));
    EXPECT_EQ(model.async_generate(request(4), asio::use_future).get().tokens.size(), 9u);
    model.async_unload(ShutdownMode::drain, asio::bind_executor(*io, unloaded.handler()));
  }
  engine.shutdown(ShutdownMode::drain);
  EXPECT_EQ(io->run(), 0u);
  EXPECT_TRUE(whole.exists() && chunked.exists() && trimmed.exists() && read.exists());
  io.reset();
  for (const Watched* gone : {&whole, &chunked, &trimmed, &read, &unloaded}) {
    EXPECT_FALSE(gone->exists());
    EXPECT_EQ(gone->calls(), 0);
  }
  // The stream is not busy for ever, and has lost nothing.
  EXPECT_EQ(stream.async_next(asio::use_future).get().tokens.size(), 3u);
  EXPECT_FALSE(state.expired());
  stream.reset();
  EXPECT_TRUE(state.expired());
}

// The reader of a callback's chunks dies with its context: the request is not computed further.
TEST(Executors, ALostCallbackCancelsItsRequest) {
  ServedModel served;
  auto io = std::make_unique<asio::io_context>();
  StepGate gate(served.model);
  served.model.async_generate(
      request(200), [](const StreamChunk&) {},
      asio::bind_executor(*io, [](error_code, GenerateResult) {}));
  gate.run(6);
  io.reset();
  gate.open();
  while (served.model.health().replicas[0].active > 0) std::this_thread::yield();
  EXPECT_EQ(served.model.statistics().completed_cancelled, 1u);
  EXPECT_EQ(served.model.memory().pages_used, 0u);
}

// As PlainExecutor, but it takes nothing.
class FullExecutor : public PlainExecutor {
 public:
  using PlainExecutor::PlainExecutor;
  template <class Work>
  void execute(Work) const {
    throw std::runtime_error("the executor is full");
  }
  bool operator==(const FullExecutor& other) const noexcept = default;
};

TEST(Executors, OneThatRefusesLosesItsHandlerAlone) {
  asio::thread_pool pool(1);
  ServedModel served;
  Watched lost;
  served.model.async_generate(request(2), asio::bind_executor(FullExecutor(pool), lost.handler()));
  EXPECT_EQ(served.generate(request(2)).tokens.size(), 7u);
  TokenStream stream = served.model.stream(request(2));
  stream.async_next(asio::bind_executor(FullExecutor(pool), lost.handler()));
  size_t tokens = 0;
  do {  // busy until the first one is lost
    const auto outcome = stream.async_next(use_outcome()).get();
    if (outcome.error != errc::stream_busy) tokens += outcome.tokens.size();
  } while (tokens < 2);
  EXPECT_FALSE(lost.exists());
  EXPECT_EQ(lost.calls(), 0);
}

// A refused handler is destroyed on the engine's courier; here it is the owner of everything.
TEST(Executors, ARefusedHandlerMayOwnTheEngine) {
  asio::thread_pool pool(1);
  std::promise<void> gone;
  {
    auto engine = std::shared_ptr<Engine>(new Engine(quiet()), [&](Engine* owned) {
      delete owned;
      gone.set_value();
    });
    const Model model = engine->load(small_model().path(), small_options());
    model.async_generate(
        request(2),
        asio::bind_executor(FullExecutor(pool), [engine, model](error_code, GenerateResult) {}));
  }
  gone.get_future().get();
}

}  // namespace
}  // namespace tinyloop::testing
