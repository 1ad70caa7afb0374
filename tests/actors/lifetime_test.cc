// Engines, models and streams that go in every order, in every place, with work in progress.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>
#include <optional>
#include <thread>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

// An engine, a model and a stream of it, each of which may go first; requests of every kind are
// under way. All that completes is counted.
class Trio {
 public:
  Trio() : engine_(quiet()), model_(engine_->load(small_model().path(), small_options())) {
    state_ = model_->state();
    StepGate gate(*model_);
    stream_ = model_->stream(request(100));
    gate.run(5);
    stream_->async_next(count());  // what is there
    stream_->async_next(count());  // busy, or what comes next
    model_->async_generate(request(100, 2), count());
    model_->async_generate(
        request(100, 3), [](const StreamChunk&) {}, count());
    ScoreRequest score;
    score.tokens = request(1).tokens;
    model_->async_score(score, count());
    model_->async_trim(count());
    gate.run(2);
  }

  void destroy(int which) {
    if (which == 0) engine_.reset();
    if (which == 1) model_.reset();
    if (which == 2) stream_.reset();
  }
  void expect_all_over() const {
    EXPECT_TRUE(state_.expired());
    EXPECT_EQ(*handlers_, 6);
  }

 private:
  // On the engine's own thread, for which the engine's end waits.
  struct Count {
    std::shared_ptr<std::atomic<int>> handlers;
    template <class... Results>
    void operator()(error_code, Results&&...) const {
      ++*handlers;
    }
  };
  Count count() const { return {handlers_}; }

  const std::shared_ptr<std::atomic<int>> handlers_ = std::make_shared<std::atomic<int>>(0);
  std::optional<Engine> engine_;
  std::optional<Model> model_;
  std::optional<TokenStream> stream_;
  std::weak_ptr<actors::ModelState> state_;
};

TEST(Lifetime, EveryOrderOfDestruction) {
  std::array<int, 3> order{0, 1, 2};
  do {
    SCOPED_TRACE(std::to_string(order[0]) + std::to_string(order[1]) + std::to_string(order[2]));
    Trio trio;
    for (const int which : order) trio.destroy(which);
    trio.expect_all_over();
  } while (std::next_permutation(order.begin(), order.end()));
}

// Where the last reference to everything is dropped: inside a handler, on some thread.
template <class Executor>
void expect_a_handler_may_own_all(const Executor& executor) {
  auto gone = std::make_shared<std::promise<void>>();
  {
    const std::shared_ptr<Engine> engine(new Engine(quiet()), [gone](Engine* owned) {
      delete owned;
      gone->set_value();
    });
    const Model model = engine->load(small_model().path(), small_options());
    auto stream = std::make_shared<TokenStream>(model.stream(request(100)));
    Pause pause(model);
    model.async_generate(request(200, 2), [](error_code, GenerateResult) {});
    model.async_generate(
        request(2, 3),
        executor(engine, [engine, model, stream](error_code error, GenerateResult result) {
          EXPECT_FALSE(error);
          EXPECT_EQ(result.tokens.size(), 7u);
        }));
  }
  gone->get_future().get();
}

TEST(Lifetime, AHandlerOwnsTheEngineOnTheEnginesThread) {
  expect_a_handler_may_own_all([](const auto&, auto handler) { return handler; });
}

TEST(Lifetime, AHandlerOwnsTheEngineOnAThreadOfTheCallers) {
  asio::io_context io;
  auto work = asio::make_work_guard(io);
  std::thread runner([&] { io.run(); });
  expect_a_handler_may_own_all(
      [&](const auto&, auto handler) { return asio::bind_executor(io, std::move(handler)); });
  work.reset();
  runner.join();
}

TEST(Lifetime, AHandlerOwnsTheEngineOnASystemThread) {
  expect_a_handler_may_own_all([](const auto&, auto handler) {
    return asio::bind_executor(asio::system_executor(), std::move(handler));
  });
}

TEST(Lifetime, AHandlerThatIsNeverRunOwnsTheEngine) {
  auto io = std::make_unique<asio::io_context>();
  std::weak_ptr<Engine> watch;
  {
    const auto engine = std::make_shared<Engine>(quiet());
    watch = engine;
    const Model model = engine->load(small_model().path(), small_options());
    model.async_generate(request(2), asio::bind_executor(*io, [engine, model](auto&&...) {}));
    EXPECT_EQ(model.async_generate(request(20), asio::use_future).get().tokens.size(), 25u);
  }
  EXPECT_FALSE(watch.expired());
  io.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(Lifetime, OnChunkOwnsTheModel) {
  std::promise<size_t> done;
  std::weak_ptr<actors::ModelState> state;
  Engine engine(quiet());
  {
    Model model = engine.load(small_model().path(), small_options());
    state = model.state();
    model.async_generate(
        request(20), [model](const StreamChunk&) {},
        [&](error_code, GenerateResult result) { done.set_value(result.tokens.size()); });
  }
  EXPECT_EQ(done.get_future().get(), 25u);
  engine.shutdown(ShutdownMode::drain);
  while (!state.expired()) std::this_thread::yield();
}

// Handlers without an executor that throw, all in a row, among others that must still come.
TEST(Lifetime, HandlersThatThrowLoseNoOther) {
  constexpr int kRequests = 30;
  std::atomic<int> handlers{0}, logged{0};
  EngineOptions options;
  options.log = [&](LogLevel level, std::string_view) { logged += level == LogLevel::error; };
  {
    ServedModel served(small_options(), options);
    for (int i = 0; i < kRequests; ++i) {
      GenerateRequest what = request(2, i);
      what.when_full = WhenFull::wait;
      served.model.async_generate(what, [&, i](error_code error, GenerateResult) {
        EXPECT_FALSE(error);
        ++handlers;
        if (i % 3 == 0) throw std::runtime_error("by the test");
        if (i % 3 == 1) throw i;
      });
      served.model.async_generate(
          what, [](const StreamChunk&) {},
          [&](error_code error, GenerateResult) {
            EXPECT_FALSE(error);
            ++handlers;
            throw "after its chunks";
          });
    }
    served.engine.shutdown(ShutdownMode::drain);
    served.model = {};
  }
  EXPECT_EQ(handlers.load(), 2 * kRequests);
  EXPECT_EQ(logged.load(), kRequests / 3 * 2 + kRequests);
}

TEST(Lifetime, ShutdownInsideAHandler) {
  for (const ShutdownMode mode : {ShutdownMode::drain, ShutdownMode::cancel}) {
    ServedModel served;
    auto other = served.model.async_generate(request(150, 2), use_outcome());
    TokenStream stream = served.model.stream(request(150, 3));
    auto next = stream.async_next(use_outcome());
    std::promise<size_t> inside;
    served.model.async_generate(request(1), [&](error_code, GenerateResult) {
      served.engine.shutdown(mode);
      inside.set_value(served.model.memory().total());
    });
    EXPECT_EQ(inside.get_future().get(), 0u);
    const auto outcome = other.get();
    EXPECT_FALSE(outcome.error);
    EXPECT_EQ(outcome.finish_reason == FinishReason::max_tokens, outcome.tokens.size() == 155u);
    if (mode == ShutdownMode::drain) {
      EXPECT_EQ(outcome.finish_reason, FinishReason::max_tokens);
    }
    EXPECT_FALSE(next.get().error);
    auto late = served.model.async_generate(request(1), use_outcome());
    EXPECT_TRUE(error_of(late) == errc::shutdown);
  }
}

TEST(Lifetime, ShutdownOnAnotherThreadThanTheCallersContextRuns) {
  asio::io_context io;
  ServedModel served;
  int handlers = 0;
  for (int i = 0; i < 4; ++i)
    served.model.async_generate(
        request(50, i), asio::bind_executor(io, [&](error_code, GenerateResult) { ++handlers; }));
  served.engine.shutdown(ShutdownMode::cancel);
  EXPECT_EQ(handlers, 0);  // posted, and nobody has run them yet
  EXPECT_EQ(io.poll(), 4u);
  EXPECT_EQ(handlers, 4);
}

TEST(Lifetime, UnloadDuringStreams) {
  for (const ShutdownMode mode : {ShutdownMode::drain, ShutdownMode::cancel}) {
    ServedModel served;
    StepGate gate(served.model);
    std::vector<TokenStream> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(served.model.stream(request(40, i)));
    gate.run(5);
    auto unloaded = served.model.async_unload(mode, use_error());
    gate.open();
    EXPECT_FALSE(unloaded.get());
    EXPECT_EQ(served.model.memory().total(), 0u);
    for (auto& stream : streams) {
      const auto chunk = stream.async_next(use_outcome()).get();  // all of it at once
      ASSERT_FALSE(chunk.error);
      ASSERT_TRUE(chunk.summary);
      EXPECT_EQ(chunk.tokens.size(), chunk.summary->generated_tokens);
      if (mode == ShutdownMode::drain) {
        EXPECT_EQ(chunk.tokens.size(), 40u);
      } else {
        EXPECT_EQ(chunk.summary->finish_reason, FinishReason::cancelled);
      }
    }
  }
}

// The promise of Engine's header: get() never deadlocks, not even on the engine's own thread, which
// is why the thread that posts to other executors is another one.
TEST(Lifetime, AHandlerMayWaitForAFuture) {
  ServedModel served;
  std::promise<size_t> tokens;
  served.model.async_generate(request(1), [&](error_code, GenerateResult) {
    tokens.set_value(served.model.async_generate(request(3), asio::use_future).get().tokens.size());
  });
  EXPECT_EQ(tokens.get_future().get(), 8u);
}

}  // namespace
}  // namespace tinyloop::testing
