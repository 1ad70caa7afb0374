// How models and engines end, in every order.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <thread>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

// One request in progress, one in the queue, the replica standing between two passes.
struct Busy {
  Busy() : served(options()), gate(std::make_unique<StepGate>(served.model)) {
    active = served.model.async_generate(request(20), use_outcome());
    gate->run(5);
    queued = served.model.async_generate(request(2), use_outcome());
    gate->run(1);
  }
  static ModelOptions options() {
    ModelOptions options = small_options();
    options.max_sequences = 1;
    return options;
  }

  ServedModel served;
  std::unique_ptr<StepGate> gate;
  std::future<Outcome<GenerateResult>> active, queued;
};

TEST(Unload, DrainFinishesWhatWasAccepted) {
  Busy busy;
  auto unloaded = busy.served.model.async_unload(ShutdownMode::drain, asio::use_future);
  auto refused = busy.served.model.async_generate(request(2), use_outcome());
  EXPECT_TRUE(error_of(refused) == errc::shutdown);
  EXPECT_EQ(busy.served.model.health().replicas[0].state, ReplicaState::draining);
  EXPECT_FALSE(busy.served.model.health().replicas[0].can_serve);
  busy.gate->open();
  EXPECT_EQ(busy.active.get().tokens.size(), 25u);
  EXPECT_EQ(busy.queued.get().tokens.size(), 7u);
  unloaded.get();
  EXPECT_EQ(busy.served.model.memory().total(), 0u);
  EXPECT_EQ(busy.served.model.health().replicas[0].state, ReplicaState::closed);
  auto late = busy.served.model.async_generate(request(2), use_outcome());
  EXPECT_TRUE(error_of(late) == errc::model_closed);
  auto late_trim = busy.served.model.async_trim(use_error());
  EXPECT_TRUE(late_trim.get() == errc::model_closed);
  EXPECT_NO_THROW(busy.served.model.async_unload(ShutdownMode::drain, asio::use_future).get());
}

TEST(Unload, CancelCutsShort) {
  Busy busy;
  auto unloaded = busy.served.model.async_unload(ShutdownMode::cancel, asio::use_future);
  busy.gate->allow(1);
  unloaded.get();
  const GenerateResult result = busy.active.get();
  EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(result.tokens.size(), 6u);
  EXPECT_TRUE(error_of(busy.queued) == errc::shutdown);
  EXPECT_EQ(busy.served.model.memory().total(), 0u);
  const Statistics statistics = busy.served.model.statistics();
  EXPECT_EQ(statistics.accepted, 2u);
  EXPECT_EQ(statistics.completed_cancelled, 2u);
}

TEST(Unload, CancelOverridesADrain) {
  Busy busy;
  auto drained = busy.served.model.async_unload(ShutdownMode::drain, asio::use_future);
  auto cancelled = busy.served.model.async_unload(ShutdownMode::cancel, asio::use_future);
  busy.gate->allow(1);
  cancelled.get();
  drained.get();
  EXPECT_EQ(busy.active.get().finish_reason, FinishReason::cancelled);
  EXPECT_TRUE(error_of(busy.queued) == errc::shutdown);
}

TEST(Unload, OthersGoOn) {
  ServedModel served;
  Model other = served.engine.load(small_model().path(), small_options());
  served.model.async_unload(ShutdownMode::drain, asio::use_future).get();
  EXPECT_EQ(other.async_generate(request(2), asio::use_future).get().tokens.size(), 7u);
}

TEST(Shutdown, DrainBlocksUntilAllIsDone) {
  Busy busy;
  busy.gate->open();
  busy.served.engine.shutdown(ShutdownMode::drain);
  EXPECT_EQ(busy.served.model.memory().total(), 0u);
  EXPECT_EQ(busy.active.get().tokens.size(), 25u);
  EXPECT_EQ(busy.queued.get().tokens.size(), 7u);
  auto late = busy.served.model.async_generate(request(2), use_outcome());
  const error_code error = error_of(late);
  EXPECT_TRUE(error == errc::shutdown);
  EXPECT_EQ(error.message(), "shutting down: the engine has been shut down");
  auto load = busy.served.engine.async_load(small_model().path(), {}, use_outcome());
  EXPECT_TRUE(error_of(load) == errc::shutdown);
  EXPECT_THROW(busy.served.engine.load(small_model().path()), boost::system::system_error);
  busy.served.engine.shutdown(ShutdownMode::cancel);  // again: nothing left to do
}

TEST(Shutdown, AsyncCancel) {
  Busy busy;
  auto done = busy.served.engine.async_shutdown(ShutdownMode::cancel, asio::use_future);
  busy.gate->allow(1);
  done.get();
  EXPECT_EQ(busy.active.get().finish_reason, FinishReason::cancelled);
  EXPECT_TRUE(error_of(busy.queued) == errc::shutdown);
}

TEST(Shutdown, OfAnEngineWithoutModels) {
  Engine engine(quiet());
  engine.async_shutdown(ShutdownMode::drain, asio::use_future).get();
  engine.shutdown(ShutdownMode::drain);
}

TEST(EngineEnd, RunsTheHandlersOfItsOwnThread) {
  int handlers = 0;
  {
    ServedModel served;
    for (int i = 0; i < 6; ++i)
      served.model.async_generate(request(50, i), [&](error_code, GenerateResult) { ++handlers; });
  }
  EXPECT_EQ(handlers, 6);
}

// The callback, what it posts next, and the handler all run on the engine's own thread: the engine
// waits for the last of them, however many posts that takes.
TEST(EngineEnd, WaitsForACallbackAndItsHandler) {
  bool done = false;  // written on the engine's thread, read after it was waited for
  std::promise<void> inside;
  {
    Engine engine(quiet());
    Model model = engine.load(small_model().path(), small_options());
    int calls = 0;
    model.async_generate(
        request(200),
        [&, model](const StreamChunk&) {
          if (calls++ > 0) return;
          inside.set_value();
          while (model.health().replicas[0].can_serve) std::this_thread::yield();
        },
        [&](error_code error, GenerateResult) {
          EXPECT_FALSE(error);
          done = true;
        });
    inside.get_future().wait();
  }
  EXPECT_TRUE(done);
}

TEST(EngineEnd, ModelsAndStreamsMayOutliveIt) {
  Model model;
  TokenStream stream;
  {
    ServedModel served;
    StepGate gate(served.model);
    model = served.model;
    stream = model.stream(request(100));
    gate.run(9);
    served.engine.async_shutdown(ShutdownMode::cancel, [](error_code) {});
  }
  StreamChunk chunk = stream.async_next(asio::use_future).get();
  EXPECT_GE(chunk.tokens.size(), 2u);
  ASSERT_TRUE(chunk.summary);
  EXPECT_EQ(chunk.summary->finish_reason, FinishReason::cancelled);
  auto late = model.async_generate(request(1), use_outcome());
  EXPECT_TRUE(error_of(late) == errc::shutdown);
  // Without an executor of its own the handler still has one.
  std::promise<error_code> promise;
  model.async_trim([&](error_code error, size_t) { promise.set_value(error); });
  EXPECT_TRUE(promise.get_future().get() == errc::shutdown);
  EXPECT_EQ(model.memory().total(), 0u);
  EXPECT_EQ(model.info().d_model, 64);
}

TEST(EngineEnd, ARequestKeepsItsModelLoaded) {
  Engine engine(quiet());
  auto future = engine.load(small_model().path(), small_options())
                    .async_generate(request(30), asio::use_future);
  EXPECT_EQ(future.get().tokens.size(), 35u);
}

TEST(EngineEnd, InsideAHandler) {
  auto engine = std::make_unique<Engine>(quiet());
  Model model = engine->load(small_model().path(), small_options());
  std::promise<void> done;
  auto other = model.async_generate(request(200, 2), asio::use_future);
  model.async_generate(request(1), [&](error_code, GenerateResult) {
    model = {};
    engine.reset();
    done.set_value();
  });
  done.get_future().get();
  EXPECT_NO_THROW(other.get());
}

TEST(EngineEnd, TheLastModelGoesInsideAHandler) {
  std::promise<void> done;
  {
    auto engine = std::make_unique<Engine>(quiet());
    auto model = std::make_shared<Model>(engine->load(small_model().path(), small_options()));
    auto gate = std::make_unique<Pause>(*model);
    const Model& reference = *model;
    reference.async_generate(request(1), [&done, model](error_code, GenerateResult) mutable {
      model.reset();
      done.set_value();
    });
    model.reset();
    gate.reset();
    done.get_future().get();
  }
}

TEST(EngineEnd, MoveAssignmentEndsTheOldOne) {
  Engine engine(quiet());
  Model model = engine.load(small_model().path(), small_options());
  engine = Engine(quiet());
  auto late = model.async_generate(request(1), use_outcome());
  EXPECT_TRUE(error_of(late) == errc::shutdown);
  EXPECT_TRUE(engine.load(small_model().path(), small_options()));
}

TEST(Load, ErrorsNameTheCause) {
  Engine engine(quiet());
  auto missing = engine.async_load("/nonexistent/model.gguf", small_options(), use_outcome());
  const error_code error = error_of(missing);
  EXPECT_TRUE(error == errc::io_error);
  EXPECT_NE(error.message().find("/nonexistent/model.gguf"), std::string::npos) << error.message();
  ModelOptions options = small_options();
  options.max_queued = 0;
  try {
    engine.load(small_model().path(), options);
    FAIL() << "no exception";
  } catch (const boost::system::system_error& thrown) {
    EXPECT_TRUE(thrown.code() == errc::invalid_argument);
    EXPECT_NE(std::string(thrown.what()).find("max_queued"), std::string::npos) << thrown.what();
  }
}

TEST(Load, BlockingInsideAHandler) {
  Engine engine(quiet());
  std::promise<size_t> tokens;
  asio::post(engine.get_executor(), [&] {
    const Model model = engine.load(small_model().path(), small_options());
    tokens.set_value(model.async_generate(request(2), asio::use_future).get().tokens.size());
  });
  EXPECT_EQ(tokens.get_future().get(), 7u);
}

// The hook stops the new model's thread before it loads, so the cancel is there in time.
TEST(Load, ACancelledLoadGivesEverythingBack) {
  std::promise<void> go;
  auto ready = go.get_future().share();
  EngineOptions options = quiet();
  options.on_thread_start = [ready] {
    if (thread_name() == "tinyloop-r0") ready.wait();
  };
  Engine engine(options);
  asio::cancellation_signal signal;
  auto future = engine.async_load(small_model().path(), small_options(),
                                  asio::bind_cancellation_slot(signal.slot(), use_outcome()));
  signal.emit(asio::cancellation_type::terminal);
  go.set_value();
  EXPECT_EQ(error_of(future), asio::error::operation_aborted);
}

TEST(Load, AShutdownDuringALoadRefusesTheModel) {
  std::promise<void> go;
  auto ready = go.get_future().share();
  EngineOptions options = quiet();
  options.on_thread_start = [ready] {
    if (thread_name() == "tinyloop-r0") ready.wait();
  };
  Engine engine(options);
  auto future = engine.async_load(small_model().path(), small_options(), use_outcome());
  auto closed = engine.async_shutdown(ShutdownMode::drain, asio::use_future);
  go.set_value();
  EXPECT_TRUE(error_of(future) == errc::shutdown);
  closed.get();
}

TEST(EmptyModel, AnswersEverything) {
  const Model model;
  EXPECT_FALSE(model);
  auto generate = model.async_generate(request(1), use_outcome());
  EXPECT_TRUE(error_of(generate) == errc::model_closed);
  auto score = model.async_score({}, use_outcome());
  EXPECT_TRUE(error_of(score) == errc::model_closed);
  auto trim = model.async_trim(use_error());
  EXPECT_TRUE(trim.get() == errc::model_closed);
  auto unload = model.async_unload(ShutdownMode::drain, use_error());
  EXPECT_TRUE(unload.get() == errc::model_closed);
  EXPECT_EQ(model.memory().total(), 0u);
  EXPECT_TRUE(model.health().replicas.empty());
  EXPECT_EQ(model.statistics().accepted, 0u);
  EXPECT_FALSE(model.tokenizer());
}

}  // namespace
}  // namespace tinyloop::testing
