// Handles that are dropped, released, copied and used by anyone, in any order, before and after the
// end of all that they refer to.
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <random>
#include <thread>

#include "tests/actors/handles.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

bool is_ready(const auto& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

TEST(HandleLifetime, TheLastCopyGivesTheMemoryBack) {
  const ServedModel served;
  PrefixCache first = build_cache(served.model, prefix_request(37));
  PrefixCache second = first;
  first = {};
  settle(served.model);
  EXPECT_GT(served.model.memory().pages_used, 0u);
  EXPECT_EQ(served.generate(behind(second, 3)).tokens.size(), 45u);
  second = {};
  settle(served.model);
  expect_nothing_held(served.model);
}

TEST(HandleLifetime, AReleaseWaitsForThoseWhoUseIt) {
  const ServedModel served;
  const PrefixCache prefix = build_cache(served.model, prefix_request(37));
  const auto what = behind(prefix, 40);
  const GenerateResult expected = served.generate(without_handle(what));
  StepGate gate(served.model);
  auto running = served.model.async_generate(what, asio::use_future);
  gate.run(10);
  auto released = served.model.async_release(prefix, use_error());
  auto again = served.model.async_release(prefix, use_error());
  EXPECT_FALSE(again.get());
  auto late = served.model.async_generate(what, use_outcome());
  EXPECT_TRUE(error_of(late) == errc::handle_lost);
  gate.run(10);
  EXPECT_FALSE(is_ready(released));
  EXPECT_GE(served.model.memory().page_bytes_used, prefix.info().page_bytes);
  gate.open();
  expect_same(running.get(), expected);
  EXPECT_FALSE(released.get());
  expect_nothing_held(served.model);
}

TEST(HandleLifetime, TheLastUserOfADroppedHandleGivesItBack) {
  const ServedModel served;
  ResumeHandle handle = build_resume(served.model, prefix_request(37), 8);
  auto what = resumed(handle, 8, 30);
  const GenerateResult expected = served.generate(without_handle(what));
  std::future<GenerateResult> running, queued;
  {
    const Pause pause(served.model);
    running = served.model.async_generate(what, asio::use_future);
    queued = served.model.async_generate(what, asio::use_future);
    what = {};
    handle = {};
  }
  expect_same(running.get(), expected);
  expect_same(queued.get(), expected);
  settle(served.model);
  expect_nothing_held(served.model);
}

// An outcome that nobody has fetched yet holds no prefix.
TEST(HandleLifetime, ARefusedRequestHoldsNoPrefix) {
  ModelOptions options = small_options();
  options.max_queued = 1;
  const ServedModel served(options);
  PrefixCache prefix = build_cache(served.model, prefix_request(37));
  TokenStream refused;
  asio::cancellation_signal signal;
  std::future<GenerateResult> accepted;
  {
    const Pause pause(served.model);
    accepted = served.model.async_generate(request(2), asio::use_future);
    refused = served.model.stream(behind(prefix, 2));
    auto other = served.model.async_generate(
        behind(prefix, 2), asio::bind_cancellation_slot(signal.slot(), use_outcome()));
    EXPECT_TRUE(error_of(other) == errc::overloaded);
  }
  accepted.get();
  release(served.model, std::exchange(prefix, {}));
  expect_nothing_held(served.model);
  EXPECT_TRUE(refused.async_next(use_outcome()).get().error == errc::overloaded);
}

TEST(HandleLifetime, HandlesOutliveModelAndEngine) {
  std::vector<PrefixCache> caches;
  std::vector<ResumeHandle> handles;
  Model model;
  {
    ServedModel served;
    for (int i = 0; i < 4; ++i) {
      caches.push_back(build_cache(served.model, prefix_request(20 + i)));
      handles.push_back(build_resume(served.model, prefix_request(20 + i), 8));
    }
    model = served.model;
    served.model.async_generate(behind(caches[0], 100), [](error_code, GenerateResult) {});
  }
  EXPECT_EQ(caches[1].info().positions, 21);
  EXPECT_EQ(handles[1].tokens().size(), 21u);
  auto late = model.async_generate(behind(caches[0], 2), use_outcome());
  EXPECT_TRUE(error_of(late) == errc::shutdown);
  EXPECT_FALSE(model.async_release(caches[0], use_error()).get());
  model = {};
  EXPECT_FALSE(Model().async_release(handles[0], use_error()).get());
  std::thread other([last = std::move(caches)]() mutable { last.clear(); });
  handles.clear();
  other.join();
}

TEST(HandleLifetime, AReleaseInFlightEndsWithTheEngine) {
  for (int round = 0; round < 20; ++round) {
    PrefixCache prefix;
    std::future<error_code> released;
    {
      ServedModel served;
      prefix = build_cache(served.model, prefix_request(37));
      served.model.async_generate(behind(prefix, 200), [](error_code, GenerateResult) {});
      released = served.model.async_release(prefix, use_error());
    }
    EXPECT_FALSE(released.get());
  }
}

// Handlers that own handles, and an executor that never runs them.
TEST(HandleLifetime, AHandlerThatIsNeverRunOwnsAHandle) {
  const ServedModel served;
  {
    asio::io_context io;
    const PrefixCache prefix = build_cache(served.model, prefix_request(37));
    served.model.async_generate(
        behind(prefix, 2),
        asio::bind_executor(io, [prefix](error_code, const GenerateResult&) { FAIL(); }));
    served.model.async_build_prefix(
        prefix_request(20),
        asio::bind_executor(io, [](error_code, const PrefixCache&) { FAIL(); }));
    served.generate(request(30));
  }
  settle(served.model);
  expect_nothing_held(served.model);
}

TEST(HandleLifetime, AFailedReplicaHasLostThem) {
  const auto device = std::make_shared<TestDevice>();
  EngineOn engine(test_backends(device));
  const Model model = engine.load().second;
  const PrefixCache prefix = build_cache(model, prefix_request(37));
  ResumeHandle handle = build_resume(model, prefix_request(37), 8);
  PrefixPool pool(PoolOptions{});
  model.async_register_prefix(pool, prefix_request(60), use_error()).get();
  // More than may run at once: some are begun and some are queued when it fails.
  std::vector<std::future<Outcome<GenerateResult>>> in_flight;
  {
    const Pause pause(model);
    device->fail_in = 6;
    for (int i = 0; i < 4; ++i) {
      in_flight.push_back(model.async_generate(behind(prefix, 20), use_outcome()));
      in_flight.push_back(model.async_generate(resumed(handle, 8, 20), use_outcome()));
    }
  }
  for (auto& future : in_flight) {
    const error_code error = error_of(future);
    EXPECT_TRUE(error == errc::replica_failed) << error.message();
  }
  expect_nothing_held(model);
  EXPECT_EQ(pool.statistics().entries, 0u);
  for (const auto& what : {behind(prefix, 2), resumed(handle, 8, 2)}) {
    auto late = model.async_generate(what, use_outcome());
    const error_code error = error_of(late);
    EXPECT_TRUE(error == errc::handle_lost) << error.message();
    EXPECT_NE(error.message().find("an illegal memory access"), std::string::npos);
  }
  auto deeper = model.async_deepen({handle, 5}, use_outcome());
  EXPECT_TRUE(error_of(deeper) == errc::handle_lost);
  auto plain = model.async_generate(request(2), use_outcome());
  EXPECT_TRUE(error_of(plain) == errc::replica_failed);
  release(model, handle);
  release(model, prefix);
  expect_nothing_held(model);
  model.async_unload(ShutdownMode::drain, asio::use_future).get();
  EXPECT_EQ(model.memory().total(), 0u);
}

// ---- All at once -------------------------------------------------------------------------------

// Handles that several threads take from and put into.
class Shelf {
 public:
  void put(PrefixCache cache, std::mt19937& random) { put(caches_, std::move(cache), random); }
  void put(ResumeHandle handle, std::mt19937& random) { put(handles_, std::move(handle), random); }
  PrefixCache cache(std::mt19937& random) { return any(caches_, random); }
  ResumeHandle handle(std::mt19937& random) { return any(handles_, random); }
  void clear() {
    caches_ = {};
    handles_ = {};
  }

 private:
  template <class Kind>
  using Places = std::array<Kind, 6>;

  // What was there is dropped outside the lock, on this thread.
  template <class Kind>
  void put(Places<Kind>& places, Kind what, std::mt19937& random) {
    const size_t place = random() % places.size();
    const std::lock_guard lock(mutex_);
    std::swap(places[place], what);
  }
  template <class Kind>
  Kind any(const Places<Kind>& places, std::mt19937& random) {
    const size_t place = random() % places.size();
    const std::lock_guard lock(mutex_);
    return places[place];
  }

  std::mutex mutex_;
  Places<PrefixCache> caches_;
  Places<ResumeHandle> handles_;
};

// One thread's part of the stress.
class Worker {
 public:
  Worker(const Model& model, Shelf& shelf, uint32_t seed)
      : model_(model), shelf_(shelf), random_(seed) {}

  void run(int operations) {
    for (int i = 0; i < operations; ++i) act();
  }
  int done() const { return done_; }

 private:
  int32_t between(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }

  void act() {
    switch (between(0, 9)) {
      case 0:
        return build_cache();
      case 1:
        return build_resume();
      case 2:
        return deepen();
      case 3:
        return shelf_.put(shelf_.cache(random_), random_);
      case 4:
        return shelf_.put(between(0, 1) ? ResumeHandle() : shelf_.handle(random_), random_);
      case 5:
        return release();
      default:
        return generate();
    }
  }

  PrefixRequest some_prefix() {
    PrefixRequest request =
        prefix_request(between(1, 50), between(1, 3), between(0, 1) * 20, between(0, 5));
    request.when_full = WhenFull::wait;
    request.deadline = soon();
    return request;
  }
  // Nobody waits for ever: all threads may be waiting for what the shelf's handles hold.
  static TimePoint soon() {
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  }

  // Waits for the result; now and then it is cancelled on the way.
  template <class Start>
  auto result_of(Start start) {
    asio::cancellation_signal signal;
    auto future = start(asio::bind_cancellation_slot(signal.slot(), use_outcome()));
    if (between(0, 5) == 0) signal.emit(asio::cancellation_type::terminal);
    auto outcome = future.get();
    expect_an_answer(outcome.error);
    done_ += !outcome.error;
    return outcome;
  }

  static void expect_an_answer(const error_code& error) {
    EXPECT_TRUE(!error || error == asio::error::operation_aborted || error == errc::handle_lost ||
                error == errc::overloaded || error == errc::deadline_exceeded)
        << error.message();
  }

  void build_cache() {
    auto built = result_of(
        [&](auto token) { return model_.async_build_prefix(some_prefix(), std::move(token)); });
    if (built) shelf_.put(PrefixCache(built), random_);
  }

  void build_resume() {
    auto built = result_of([&](auto token) {
      return model_.async_build_resume({some_prefix(), between(3, 6)}, std::move(token));
    });
    if (built) shelf_.put(ResumeHandle(built), random_);
  }

  void deepen() {
    const ResumeHandle from = shelf_.handle(random_);
    if (!from) return;
    const int32_t loops = between(from.info().loops, from.info().max_loops);
    auto built = result_of([&](auto token) {
      return model_.async_deepen({from, loops}, std::move(token));
    });
    if (built) shelf_.put(ResumeHandle(built), random_);
  }

  void release() {
    const ReuseHandle which =
        between(0, 1) ? ReuseHandle(shelf_.cache(random_)) : ReuseHandle(shelf_.handle(random_));
    auto released = model_.async_release(which, use_error());
    if (between(0, 1)) {
      EXPECT_FALSE(released.get());
    }
  }

  void generate() {
    const PrefixCache cache = shelf_.cache(random_);
    const ResumeHandle handle = shelf_.handle(random_);
    GenerateRequest what = request(between(1, 12), between(0, 9));
    if (between(0, 1) && cache) {
      what = behind(cache, between(1, 12), size_t(between(0, 5)), between(0, 9));
    } else if (handle) {
      what = resumed(handle, between(handle.info().loops, handle.info().max_loops), between(1, 12),
                     size_t(between(0, 5)));
    }
    if (between(0, 1)) {
      what.when_full = WhenFull::wait;
      what.config.deadline = soon();
    }
    if (between(0, 3) == 0) {
      TokenStream stream = model_.stream(what);
      const auto chunk = stream.async_next(use_outcome()).get();
      expect_an_answer(chunk.error);
      return;  // and never mind the rest
    }
    const auto outcome =
        result_of([&](auto token) { return model_.async_generate(what, std::move(token)); });
    if (outcome.error || outcome.finish_reason != FinishReason::max_tokens) return;
    EXPECT_EQ(outcome.tokens.size(), outcome.prompt_tokens + size_t(what.config.max_tokens));
    if (between(0, 7) != 0) return;
    if (what.prefix || what.resume) what = without_handle(what);
    what.when_full = WhenFull::fail;
    what.config.deadline.reset();
    const auto plain = model_.async_generate(what, use_outcome()).get();
    if (plain.error) return expect_an_answer(plain.error);
    EXPECT_EQ(plain.tokens, outcome.tokens);
  }

  const Model& model_;
  Shelf& shelf_;
  std::mt19937 random_;
  int done_ = 0;
};

TEST(HandleLifetime, AStormOfAllThatHandlesCanDoLeavesNothingBehind) {
  constexpr uint32_t kSeed = 4711;
  constexpr int kThreads = 8, kOperations = 250;
  ModelOptions options = small_options();
  options.max_sequences = 8;
  options.max_queued = 64;
  options.prefill_budget = 24;
  options.max_handles = 64;
  options.cache_budget_bytes = size_t{2} << 20;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  const ServedModel served(options);
  served.generate(request(1));
  served.model.async_trim(asio::use_future).get();
  const size_t before = served.model.memory().total();
  Shelf shelf;
  std::vector<Worker> workers;
  for (uint32_t i = 0; i < kThreads; ++i) workers.emplace_back(served.model, shelf, kSeed + i);
  std::vector<std::thread> threads;
  for (Worker& worker : workers) threads.emplace_back([&worker] { worker.run(kOperations); });
  for (auto& thread : threads) thread.join();
  int done = 0;
  for (const Worker& worker : workers) done += worker.done();
  EXPECT_GT(done, kThreads * kOperations / 4);
  shelf.clear();
  // Requests that nobody waits for have to end, and handlers that nobody waits for drop what they
  // were given on threads of their own.
  const auto is_busy = [&] {
    const HealthReport::Replica replica = served.model.health().replicas[0];
    return replica.queued > 0 || replica.active > 0 || served.model.memory().pages_used > 0;
  };
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    settle(served.model);
  } while (is_busy() && std::chrono::steady_clock::now() < late);
  settle(served.model);
  expect_nothing_held(served.model);
  served.model.async_trim(asio::use_future).get();
  EXPECT_EQ(served.model.memory().total(), before);
  EXPECT_TRUE(served.model.health().replicas[0].can_serve);
  const Statistics counts = served.model.statistics();
  EXPECT_EQ(counts.accepted, counts.completed_ok + counts.completed_cancelled +
                                 counts.completed_deadline + counts.completed_failed);
}

}  // namespace
}  // namespace tinyloop::testing
