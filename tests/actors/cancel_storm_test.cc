// Many threads that cancel the same and different requests, early, twice and late.
#include <gtest/gtest.h>

#include <barrier>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <thread>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

constexpr int kThreads = 8;

ModelOptions roomy() {
  ModelOptions options = small_options();
  options.max_queued = 256;
  return options;
}

// Runs `body(thread)` on kThreads threads that start together.
template <class Body>
void storm(Body body) {
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      body(i);
    });
  for (auto& thread : threads) thread.join();
}

void expect_nothing_held(const Model& model, uint64_t requests) {
  model.async_trim(asio::use_future).get();
  const MemoryReport memory = model.memory();
  EXPECT_EQ(memory.pages_used, 0u);
  EXPECT_EQ(memory.cache_reserved, 0u);
  EXPECT_EQ(memory.arena, 0u);
  const Statistics statistics = model.statistics();
  EXPECT_EQ(statistics.accepted, requests);
  EXPECT_EQ(statistics.completed_ok + statistics.completed_cancelled, requests);
}

bool is_cut_or_whole(const Outcome<GenerateResult>& outcome) {
  if (outcome.error) return outcome.error == asio::error::operation_aborted;
  return outcome.finish_reason == FinishReason::cancelled ||
         outcome.finish_reason == FinishReason::max_tokens;
}

TEST(CancelStorm, AllThreadsOnEachRequest) {
  constexpr size_t kRequests = 100;
  ServedModel served(roomy());
  std::vector<asio::cancellation_signal> signals(kRequests);
  std::vector<std::future<Outcome<GenerateResult>>> futures;
  std::vector<std::atomic<int>> handlers(kRequests);
  for (size_t i = 0; i < kRequests; ++i)
    futures.push_back(served.model.async_generate(
        request(20, int32_t(i)),
        asio::bind_cancellation_slot(
            signals[i].slot(), asio::use_future([&, i](error_code error, GenerateResult result) {
              ++handlers[i];
              return Outcome<GenerateResult>{std::move(result), error};
            }))));
  storm([&](int thread) {
    for (int round = 0; round < 3; ++round)
      for (size_t i = 0; i < kRequests; ++i)
        signals[(i + size_t(thread) * 13) % kRequests].emit(asio::cancellation_type::all);
  });
  for (auto& future : futures) EXPECT_TRUE(is_cut_or_whole(future.get()));
  storm([&](int) {
    for (auto& signal : signals) signal.emit(asio::cancellation_type::total);
  });
  for (auto& count : handlers) EXPECT_EQ(count.load(), 1);
  expect_nothing_held(served.model, kRequests);
  EXPECT_GE(served.model.statistics().completed_cancelled, 1u);
}

// Each thread sends, cancels at some moment of its own and once more, and reads the outcome.
TEST(CancelStorm, EachThreadOnItsOwnRequests) {
  constexpr int kRequests = 40;
  ServedModel served(roomy());
  storm([&](int thread) {
    for (int i = 0; i < kRequests; ++i) {
      asio::cancellation_signal signal;
      auto future =
          served.model.async_generate(request(10, thread * kRequests + i),
                                      asio::bind_cancellation_slot(signal.slot(), use_outcome()));
      for (int turn = 0; turn < i * 20; ++turn) std::this_thread::yield();
      signal.emit(asio::cancellation_type::partial);
      EXPECT_TRUE(is_cut_or_whole(future.get()));
      signal.emit(asio::cancellation_type::terminal);
    }
  });
  expect_nothing_held(served.model, kThreads * kRequests);
}

// Streams, cancelled by all threads at the same time while a reader reads each to its end.
TEST(CancelStorm, OfStreamsThatAreBeingRead) {
  constexpr int kStreams = 24;
  ServedModel served(roomy());
  std::vector<TokenStream> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(served.model.stream(request(30, i)));
  std::atomic<int> ends{0};
  storm([&](int thread) {
    if (thread % 2 == 0) {
      for (int round = 0; round < 20; ++round)
        for (auto& stream : streams) stream.cancel();
      return;
    }
    for (size_t i = size_t(thread / 2); i < streams.size(); i += kThreads / 2) {
      for (bool more = true; more;) {
        const auto chunk = streams[i].async_next(use_outcome()).get();
        more = !chunk.error && !chunk.summary;
      }
      ++ends;
    }
  });
  EXPECT_EQ(ends.load(), kStreams);
  streams.clear();
  expect_nothing_held(served.model, kStreams);
}

TEST(CancelStorm, WhileTheEngineEnds) {
  constexpr size_t kRequests = 60;
  std::vector<asio::cancellation_signal> signals(kRequests);
  std::vector<std::future<Outcome<GenerateResult>>> futures;
  auto served = std::make_unique<ServedModel>(roomy());
  for (size_t i = 0; i < kRequests; ++i)
    futures.push_back(served->model.async_generate(
        request(50, int32_t(i)), asio::bind_cancellation_slot(signals[i].slot(), use_outcome())));
  storm([&](int thread) {
    if (thread == 0) return served.reset();
    for (auto& signal : signals) signal.emit(asio::cancellation_type::all);
  });
  for (auto& future : futures) {
    const auto outcome = future.get();
    EXPECT_TRUE(is_cut_or_whole(outcome) || outcome.error == errc::shutdown)
        << outcome.error.message();
  }
}

TEST(CancelCounts, SayWhereACancelHasReachedItsRequest) {
  using actors::CancelPhase;
  ModelOptions options = small_options();
  options.max_sequences = 1;
  ServedModel served(options);
  const auto at = [&](CancelPhase phase) {
    return served.model.state()->replica().inbox()->cancel_counts.at(phase);
  };
  StepGate gate(served.model);
  TokenStream decoding = served.model.stream(request(100));
  gate.run(1);
  TokenStream queued = served.model.stream(request(5, 2));
  gate.run(1);
  queued.cancel();
  queued.cancel();
  gate.run(1);
  EXPECT_EQ(at(CancelPhase::queued), 1u);
  gate.run(4);
  decoding.cancel();
  TokenStream begun = served.model.stream(request(5, 3));
  gate.run(1);
  EXPECT_EQ(at(CancelPhase::decode), 1u);
  begun.cancel();
  gate.open();
  while (served.model.statistics().completed_cancelled < 3) std::this_thread::yield();
  EXPECT_EQ(at(CancelPhase::prefill), 1u);

  TokenStream whole = served.model.stream(request(2));
  while (served.model.statistics().completed_ok < 1) std::this_thread::yield();
  while (served.model.health().replicas[0].active > 0) std::this_thread::yield();
  Pause pause(served.model);  // the outcome has been handed out
  whole.cancel();
  EXPECT_EQ(at(CancelPhase::completing), 1u);
  TokenStream read = served.model.stream(request(0));
  EXPECT_TRUE(read.async_next(use_error()).get() == errc::invalid_argument);
  read.cancel();
  read.cancel();
  EXPECT_EQ(at(CancelPhase::done), 1u);
  EXPECT_EQ(at(CancelPhase::completing), 1u);
}

}  // namespace
}  // namespace tinyloop::testing
