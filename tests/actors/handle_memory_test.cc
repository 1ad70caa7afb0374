// What handles cost, to the byte, what they share, what they promise, and what happens when there
// is no more.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <map>
#include <set>
#include <thread>

#include "tests/actors/handles.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

// Of the small model: 16 positions in one slot.
constexpr size_t kSlotPage = 16 * 2 * 2 * 16 * 2;

GenerateRequest waiting(GenerateRequest what) {
  what.when_full = WhenFull::wait;
  return what;
}

ModelOptions with_budget(size_t bytes) {
  ModelOptions options = small_options();
  options.cache_budget_bytes = bytes;
  return options;
}

// ---- Bytes -------------------------------------------------------------------------------------

// What a handle has added to the report is what it says of itself.
void expect_grown_by(const MemoryReport& before, const MemoryReport& after,
                     const PrefixInfo& info) {
  EXPECT_EQ(after.page_bytes_used - before.page_bytes_used, info.page_bytes);
  EXPECT_EQ(after.handles - before.handles, info.snapshot_bytes);
  EXPECT_EQ(after.cache_reserved - before.cache_reserved, info.page_bytes + info.reserved_bytes);
  EXPECT_EQ(info.bytes(), info.page_bytes + info.snapshot_bytes + info.reserved_bytes);
}

TEST(HandleMemory, IsWhatTheHandleSaysToTheByte) {
  for (const char* injection : {"none", "linear"}) {
    const RandomModel file = write_random_model({.injection = injection});
    Engine engine(quiet());
    const Model model = engine.load(file.path(), small_options());
    for (const int32_t window : {0, 20}) {
      for (const int32_t positions : {1, 16, 37, 90}) {
        SCOPED_TRACE(std::string(injection) + ", window " + std::to_string(window) + ", " +
                     std::to_string(positions) + " positions");
        const MemoryReport empty = model.memory();
        const PrefixCache cache = build_cache(model, prefix_request(positions, 3, window));
        const MemoryReport one = model.memory();
        expect_grown_by(empty, one, cache.info());
        const ResumeHandle handle = build_resume(model, prefix_request(positions, 3, window), 8);
        const MemoryReport two = model.memory();
        expect_grown_by(one, two, handle.info());
        EXPECT_EQ(two.total(), two.weights + two.buffers + two.workspace + two.arena + two.handles);

        const size_t places =
            size_t((positions + 15) / 16 - (window ? std::max(0, positions - window + 1) / 16 : 0));
        const size_t row = 64 * sizeof(float), rows = size_t(positions);
        EXPECT_EQ(cache.info().page_bytes, places * (1 + 1 + 2 * 3) * kSlotPage);
        EXPECT_EQ(cache.info().snapshot_bytes, row);
        EXPECT_EQ(cache.info().reserved_bytes, 0u);
        EXPECT_EQ(handle.info().page_bytes, places * (1 + 2 * 3) * kSlotPage);
        EXPECT_EQ(handle.info().snapshot_bytes, rows * row * (*injection == 'l' ? 2 : 1));
        EXPECT_EQ(handle.info().reserved_bytes, (rows + 15) / 16 * (1 + 2 * (8 - 3)) * kSlotPage);

        const ResumeHandle deeper = deepen(model, handle, 5);
        const MemoryReport three = model.memory();
        EXPECT_EQ(three.page_bytes_used - two.page_bytes_used, places * 2 * 2 * kSlotPage);
        EXPECT_EQ(deeper.info().page_bytes, places * (1 + 2 * 5) * kSlotPage);
        release(model, handle);
        release(model, cache);
        expect_grown_by(empty, model.memory(), deeper.info());  // what was shared is its own now
        release(model, deeper);
        expect_nothing_held(model);
      }
    }
  }
}

// ---- Shared pages ------------------------------------------------------------------------------

ModelOptions many_sequences() {
  ModelOptions options = small_options();
  options.max_seq_len = 1024;
  options.max_sequences = 64;
  options.max_queued = 64;
  options.prefill_budget = 512;
  return options;
}

constexpr size_t kPagesAPlace = 1 + 1 + 3;  // prelude, coda, three iterations

TEST(HandleMemory, ManyGenerationsShareOnePrefix) {
  constexpr size_t kGenerations = 64;
  const ServedModel served(many_sequences());
  const PrefixCache prefix = build_cache(served.model, prefix_request(512));
  const size_t shared = served.model.memory().pages_used;
  EXPECT_EQ(shared, 512 / 16 * kPagesAPlace);
  StepGate gate(served.model);
  std::vector<std::future<GenerateResult>> futures;
  {
    const Pause pause(served.model);
    for (size_t i = 0; i < kGenerations; ++i) {
      futures.push_back(
          served.model.async_generate(behind(prefix, 20, 5, int32_t(i)), asio::use_future));
    }
  }
  // All in step: a row a token and sequence, three passes each, from position 517 on.
  gate.run(4 * 3 + 1);
  EXPECT_EQ(served.model.health().replicas[0].active, kGenerations);
  EXPECT_EQ(served.model.memory().pages_used, shared + kGenerations * kPagesAPlace);
  gate.run(11 * 3 - 3 * 3);  // position 528 begins a page
  EXPECT_EQ(served.model.memory().pages_used, shared + 2 * kGenerations * kPagesAPlace);
  gate.open();
  for (size_t i = 0; i < kGenerations; ++i) {
    const GenerateResult result = futures[i].get();
    if (i % 16 == 0) {
      expect_same(result, served.generate(without_handle(behind(prefix, 20, 5, int32_t(i)))));
    }
  }
  EXPECT_EQ(served.model.memory().pages_used, shared);
}

TEST(HandleMemory, AGenerationCopiesTheLastPageOfEachGroupAtMost) {
  constexpr size_t kGenerations = 64;
  const ServedModel served(many_sequences());
  for (const int32_t positions : {500, 512}) {
    const PrefixCache prefix = build_cache(served.model, prefix_request(positions));
    std::vector<engine::PageCopy> copies;
    size_t most_pages = 0;
    std::vector<std::future<GenerateResult>> futures;
    {
      const Pause pause(served.model);
      visit_replica(served.model, [&](engine::BatchEngine& engine) {
        engine.set_plan_observer([&](const engine::StepPlan& plan) {
          copies.insert(copies.end(), plan.copies.begin(), plan.copies.end());
          most_pages = std::max(most_pages, served.model.memory().pages_used);
        });
      });
      for (size_t i = 0; i < kGenerations; ++i)
        futures.push_back(served.model.async_generate(behind(prefix, 6, 0), asio::use_future));
    }
    for (auto& future : futures) future.get();
    visit_replica(served.model, [](engine::BatchEngine& engine) { engine.set_plan_observer({}); });
    settle(served.model);
    const bool partial = positions % 16 != 0;
    EXPECT_EQ(copies.size(), partial ? kGenerations * kPagesAPlace : 0);
    std::map<int32_t, size_t> copies_of;  // by group
    std::set<std::pair<int32_t, int32_t>> sources;
    for (const engine::PageCopy& copy : copies) {
      ++copies_of[copy.group];
      sources.insert({copy.group, copy.from});
    }
    EXPECT_EQ(sources.size(), partial ? kPagesAPlace : 0);
    for (const auto& [group, count] : copies_of) EXPECT_EQ(count, kGenerations) << group;
    EXPECT_EQ(most_pages, (32 + kGenerations) * kPagesAPlace);
    release(served.model, prefix);
  }
}

// ---- Budgets -----------------------------------------------------------------------------------

TEST(HandleMemory, ABuildFitsABudgetOfJustItsBytes) {
  const ServedModel roomy;
  const PrefixInfo cache = build_cache(roomy.model, prefix_request(37)).info();
  const PrefixInfo handle = build_resume(roomy.model, prefix_request(37), 8).info();
  for (const size_t missing : {0, 1}) {
    const ServedModel a(with_budget(cache.page_bytes - missing));
    auto built = a.model.async_build_prefix(prefix_request(37), use_outcome());
    const ServedModel b(with_budget(handle.page_bytes + handle.reserved_bytes - missing));
    auto resumable = b.model.async_build_resume({prefix_request(37), 8}, use_outcome());
    for (const error_code error : {error_of(built), error_of(resumable)}) {
      EXPECT_EQ(error == errc::out_of_memory, missing == 1) << error.message();
    }
  }
}

TEST(HandleMemory, MaxHandlesIsOverloaded) {
  ModelOptions options = small_options();
  options.max_handles = 2;
  const ServedModel served(options);
  PrefixCache first = build_cache(served.model, prefix_request(20));
  const ResumeHandle second = build_resume(served.model, prefix_request(20), 8);
  auto third = served.model.async_build_prefix(prefix_request(20), use_outcome());
  const error_code error = error_of(third);
  EXPECT_TRUE(error == errc::overloaded);
  EXPECT_EQ(error.message(), "overloaded: 2 handles are alive, max_handles is 2");
  auto deeper = served.model.async_deepen({second, 5}, use_outcome());
  EXPECT_TRUE(error_of(deeper) == errc::overloaded);
  release(served.model, std::exchange(first, {}));
  EXPECT_EQ(deepen(served.model, second, 5).info().loops, 5);
}

TEST(HandleMemory, HandleBudgetIsOverloadedOrOutOfMemory) {
  const size_t bytes = build_resume(ServedModel().model, prefix_request(37), 8).info().bytes();
  ModelOptions options = small_options();
  options.handle_budget_bytes = 2 * bytes - 1;
  const ServedModel served(options);
  const std::string budget = std::to_string(options.handle_budget_bytes);
  ResumeHandle one = build_resume(served.model, prefix_request(37), 8);
  auto two = served.model.async_build_resume({prefix_request(37), 8}, use_outcome());
  const error_code error = error_of(two);
  EXPECT_TRUE(error == errc::overloaded);
  EXPECT_EQ(error.message(), "overloaded: handles hold " + std::to_string(bytes) + " bytes of " +
                                 budget + " (handle_budget_bytes), the prefix takes " +
                                 std::to_string(bytes));
  auto large = served.model.async_build_resume({prefix_request(90), 16}, use_outcome());
  const error_code never = error_of(large);
  EXPECT_TRUE(never == errc::out_of_memory);
  EXPECT_NE(never.message().find("handle_budget_bytes is " + budget), std::string::npos);
  release(served.model, std::exchange(one, {}));
  EXPECT_TRUE(build_resume(served.model, prefix_request(37), 8));
}

// What a request brings along counts as what it needs: nobody else can give that back, so waiting
// would be for ever, and for all who come later.
TEST(HandleMemory, ARequestThatCannotFitBesideItsOwnPrefixIsOutOfMemory) {
  const size_t prefix_bytes = build_cache(ServedModel().model, prefix_request(64)).info().bytes();
  const size_t budget = prefix_bytes + bytes_of(request(10));
  const ServedModel served(with_budget(budget));
  const PrefixCache prefix = build_cache(served.model, prefix_request(64));
  const ResumeHandle none;
  for (const auto& what : {behind(prefix, 90), waiting(behind(prefix, 90))}) {
    auto refused = served.model.async_generate(what, use_outcome());
    ASSERT_EQ(refused.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    const error_code error = error_of(refused);
    EXPECT_TRUE(error == errc::out_of_memory) << error.message();
    EXPECT_NE(error.message().find("its prefix included"), std::string::npos) << error.message();
  }
  EXPECT_EQ(served.generate(behind(prefix, 3)).tokens.size(), 72u);
}

TEST(HandleMemory, OneResumeAlwaysFitsAndASecondWaitsOrIsOverloaded) {
  for (const int32_t positions : {32, 37}) {
    const PrefixInfo info = build_resume(ServedModel().model, prefix_request(positions), 8).info();
    const size_t filler = bytes_of(request(100));
    ServedModel served(with_budget(info.page_bytes + info.reserved_bytes + filler));
    const ResumeHandle handle = build_resume(served.model, prefix_request(positions), 8);
    StepGate gate(served.model);
    auto running = served.model.async_generate(request(100), asio::use_future);
    gate.run(1);
    EXPECT_EQ(served.model.health().replicas[0].free_cache_bytes, 0u);
    auto first = served.model.async_generate(resumed(handle, 8, 1), asio::use_future);
    auto second = served.model.async_generate(resumed(handle, 8, 1), use_outcome());
    auto third = served.model.async_generate(waiting(resumed(handle, 8, 1)), asio::use_future);
    gate.run(2);
    EXPECT_TRUE(error_of(second) == errc::overloaded);
    EXPECT_EQ(served.model.health().replicas[0].active, 2u);
    EXPECT_EQ(served.model.health().replicas[0].queued, 1u);
    gate.open();
    const GenerateResult result = first.get();
    expect_same(third.get(), result);
    running.get();
    EXPECT_EQ(served.model.memory().cache_reserved, info.page_bytes + info.reserved_bytes);
    release(served.model, handle);
    expect_nothing_held(served.model);
    const PrefixRequest whole = prefix_request(positions);
    GenerateRequest plain = request(1);
    plain.tokens = whole.tokens;
    plain.config.loops = 8;
    expect_same(result, served.generate(plain));
  }
}

// ---- Waiting for what handles hold -------------------------------------------------------------

class HandlesHoldTheBudget : public ::testing::Test {
 protected:
  HandlesHoldTheBudget() {
    served_ = std::make_unique<ServedModel>(with_budget(bytes_of(request(100))));
    prefix_ = build_cache(served_->model, prefix_request(64));
    const auto info = served_->model.health().replicas[0];
    EXPECT_LT(info.free_cache_bytes, bytes_of(request(100)));
  }
  template <class Token>
  auto start_waiter(Token&& token) {
    auto future = served_->model.async_generate(what_, std::forward<Token>(token));
    settle(served_->model);  // nobody is active: the replica is about to sleep
    EXPECT_EQ(served_->model.health().replicas[0].queued, 1u);
    return future;
  }

  std::unique_ptr<ServedModel> served_;
  PrefixCache prefix_;
  GenerateRequest what_ = waiting(request(100));
};

TEST_F(HandlesHoldTheBudget, ADroppedHandleLetsTheWaiterGo) {
  auto waiter = start_waiter(asio::use_future);
  auto refused = served_->model.async_generate(request(100), use_outcome());
  EXPECT_TRUE(error_of(refused) == errc::overloaded);
  prefix_ = {};
  EXPECT_EQ(waiter.get().tokens.size(), 105u);
}

TEST_F(HandlesHoldTheBudget, TheWaiterHonoursACancel) {
  asio::cancellation_signal signal;
  auto waiter = start_waiter(asio::bind_cancellation_slot(signal.slot(), use_outcome()));
  signal.emit(asio::cancellation_type::terminal);
  EXPECT_EQ(error_of(waiter), asio::error::operation_aborted);
}

TEST_F(HandlesHoldTheBudget, TheWaiterHonoursItsDeadline) {
  what_.config.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  auto waiter = served_->model.async_generate(what_, use_outcome());
  EXPECT_TRUE(error_of(waiter) == errc::deadline_exceeded);
}

TEST_F(HandlesHoldTheBudget, TheWaiterEndsWithTheModel) {
  for (const ShutdownMode mode : {ShutdownMode::drain, ShutdownMode::cancel}) {
    auto waiter = start_waiter(use_outcome());
    served_->model.async_unload(mode, asio::use_future).get();
    EXPECT_TRUE(error_of(waiter) == errc::shutdown);
    EXPECT_EQ(served_->model.memory().total(), 0u);
    prefix_ = {};
    served_ = std::make_unique<ServedModel>(with_budget(bytes_of(request(100))));
    prefix_ = build_cache(served_->model, prefix_request(64));
  }
}

// ---- A device without memory -------------------------------------------------------------------

// An engine whose allocations can be made to fail.
class HandlesWithoutMemory : public ::testing::Test {
 protected:
  HandlesWithoutMemory()
      : engine_([this](const ModelOptions& options) {
          auto backend = kernels::make_backend(options);
          if (backend) memory_ = &(*backend)->memory();
          return backend;
        }),
        model_(engine_.load(small_options(), file_.path()).second) {}

  // Does `act`, which gives an error, with the n-th allocation failing, for every n there is: it is
  // out of memory or none the wiser, and the report is as before.
  template <class Act>
  void with_every_failure(Act act) {
    int failures = 0;
    for (uint64_t n = 1;; ++n) {
      SCOPED_TRACE("allocation " + std::to_string(n));
      model_.async_trim(asio::use_future).get();
      const MemoryReport before = model_.memory();
      const uint64_t allocations = memory_->allocation_count();
      memory_->fail_allocation(n);
      const error_code error = act();
      memory_->fail_allocation(0);
      settle(model_);
      const MemoryReport after = model_.memory();
      EXPECT_EQ(after.pages_used, before.pages_used);
      EXPECT_EQ(after.cache_reserved, before.cache_reserved);
      EXPECT_EQ(after.handles, before.handles);
      ASSERT_TRUE(model_.health().replicas[0].can_serve) << model_.health().replicas[0].last_error;
      if (error) {
        EXPECT_TRUE(error == errc::out_of_memory) << error.message();
        ++failures;
      }
      if (memory_->allocation_count() - allocations < n) break;
    }
    EXPECT_GE(failures, 1);
  }

  kernels::DeviceMemory* memory_ = nullptr;
  // Of pages so large that a slab holds few.
  const RandomModel file_ = write_random_model({.heads = 8, .kv_heads = 8, .head_dim = 256});
  EngineOn engine_;
  const Model model_;
};

TEST_F(HandlesWithoutMemory, BuildsGiveEverythingBack) {
  model_.async_generate(request(1), asio::use_future).get();  // the logits buffer stays
  with_every_failure([&] {
    auto built = model_.async_build_prefix(prefix_request(100), use_outcome()).get();
    if (built) release(model_, built);
    return built.error;
  });
  with_every_failure([&] {
    auto built = model_.async_build_resume({prefix_request(100), 9}, use_outcome()).get();
    if (built) release(model_, built);
    return built.error;
  });
  const ResumeHandle handle = build_resume(model_, prefix_request(100), 9);
  with_every_failure([&] {
    auto built = model_.async_deepen({handle, 9}, use_outcome()).get();
    if (built) release(model_, built);
    return built.error;
  });
}

TEST_F(HandlesWithoutMemory, UsesGiveEverythingBackAndLeaveTheHandlesWhole) {
  const PrefixCache prefix = build_cache(model_, prefix_request(100));
  const ResumeHandle handle = build_resume(model_, prefix_request(100), 9);
  const auto what = behind(prefix, 3, 60), deep = resumed(handle, 9, 3, 60);
  const auto expected = model_.async_generate(without_handle(what), asio::use_future).get();
  const auto deep_expected = model_.async_generate(without_handle(deep), asio::use_future).get();
  with_every_failure([&] { return model_.async_generate(what, use_outcome()).get().error; });
  with_every_failure([&] { return model_.async_generate(deep, use_outcome()).get().error; });
  memory_->fail_all_allocations(true);
  auto squeezed = model_.async_generate(what, use_outcome()).get();
  memory_->fail_all_allocations(false);
  EXPECT_TRUE(!squeezed.error || squeezed.error == errc::out_of_memory);
  expect_same(model_.async_generate(what, asio::use_future).get(), expected);
  expect_same(model_.async_generate(deep, asio::use_future).get(), deep_expected);
}

}  // namespace
}  // namespace tinyloop::testing
