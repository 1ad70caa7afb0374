// Once a load has been seen, nothing is allocated on the threads that compute: neither by the actor
// nor by the backend's workers. Every way to host memory is counted: malloc and its kin are
// replaced for this whole program. Not under a sanitizer, which has its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <execinfo.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <cstring>
#include <thread>

#include "engine/step_plan.h"
#include "tests/actors/plain_executor.h"
#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

// ---- The count ---------------------------------------------------------------------------------

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
std::array<void*, 24> first_stack;  // of the first one
std::atomic<int> first_stack_size{0};

// By the thread's name. Asked only while counting, when all threads have their names.
bool computes() {
  enum class Known : uint8_t { no_idea, yes, no };
  static thread_local Known known = Known::no_idea;
  if (known == Known::no_idea) {
    const std::string_view prefixes[] = {"tinyloop-r", "tl-cpu-"};
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    const bool is = std::any_of(std::begin(prefixes), std::end(prefixes), [&](auto prefix) {
      return std::string_view(name).starts_with(prefix);
    });
    known = is ? Known::yes : Known::no;
  }
  return known == Known::yes;
}

void note_allocation() {
  if (!counting.load(std::memory_order_relaxed) || !computes()) return;
  if (allocations.fetch_add(1) == 0)
    first_stack_size = backtrace(first_stack.data(), int(first_stack.size()));
}

}  // namespace
}  // namespace tinyloop::testing

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void* malloc(size_t size) noexcept {
  tinyloop::testing::note_allocation();
  return __libc_malloc(size);
}
EXPORTED void* calloc(size_t count, size_t size) noexcept {
  tinyloop::testing::note_allocation();
  return __libc_calloc(count, size);
}
EXPORTED void* realloc(void* block, size_t size) noexcept {
  tinyloop::testing::note_allocation();
  return __libc_realloc(block, size);
}
EXPORTED void* memalign(size_t alignment, size_t size) noexcept {
  tinyloop::testing::note_allocation();
  return __libc_memalign(alignment, size);
}
EXPORTED void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return memalign(alignment, size);
}
EXPORTED int posix_memalign(void** block, size_t alignment, size_t size) noexcept {
  *block = memalign(alignment, size);
  return *block ? 0 : ENOMEM;
}
}

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

class Allocations : public ::testing::Test {
 protected:
  void SetUp() override {
    TINYLOOP_SKIP_ON_CUDA("the driver allocates as it likes");
    std::array<void*, 1> any;
    backtrace(any.data(), 1);  // loads the unwinder, which allocates
    allocations = 0;
    first_stack_size = 0;
  }
  void TearDown() override { counting = false; }

  static void expect_none() {
    counting = false;
    EXPECT_EQ(allocations.load(), 0) << "the first one came from";
    if (allocations.load() > 0) backtrace_symbols_fd(first_stack.data(), first_stack_size, 2);
  }
};

ModelOptions options() {
  ModelOptions options = small_options();
  options.max_sequences = 16;
  options.max_queued = 32;
  options.prefill_budget = 8;
  options.cpu_threads = 2;
  return options;
}

GenerateRequest rich_request(int32_t max_tokens, int32_t seed) {
  GenerateRequest what = request(max_tokens, seed);
  what.config.logprobs = 3;
  what.config.temperature = 0.8f;
  what.config.top_p = 0.95f;
  what.config.repetition_penalty = 1.1f;
  what.config.stop_sequences = {"neither this nor that", std::vector<int32_t>{7, 7, 7, 7, 7}};
  what.config.loops = 2;
  return what;
}

// Reads a stream to its end, each chunk by a handler on `executor`. It has to be bound there.
template <class Executor>
class Reader {
 public:
  Reader(TokenStream stream, Executor executor)
      : stream_(std::move(stream)), executor_(std::move(executor)) {}

  void start() {
    stream_.async_next(asio::bind_executor(executor_, [this](error_code error, StreamChunk chunk) {
      EXPECT_FALSE(error) << error.message();
      tokens_ += chunk.tokens.size();
      if (error || chunk.summary) return done_.set_value(tokens_);
      start();
    }));
  }
  size_t wait() { return done_.get_future().get(); }

 private:
  TokenStream stream_;
  Executor executor_;
  size_t tokens_ = 0;
  std::promise<size_t> done_;
};

// Executors of every kind, each with two streams on it; a callback; whole results; a long prompt,
// sliced; one stream that is cancelled on the way.
class Load {
 public:
  Load(const ServedModel& served, asio::thread_pool& pool, int32_t max_tokens)
      : served_(served), pool_(pool), max_tokens_(max_tokens) {}
  ~Load() {
    io_work_.reset();
    io_thread_.join();
  }

  void start() {
    for (int32_t i = 0; i < 2; ++i) {
      add(io_.get_executor());
      add(asio::any_io_executor(asio::make_strand(pool_)));
      add(asio::any_io_executor(PlainExecutor(pool_)));
      add(served_.engine.get_executor());
    }
    for (auto& start : starts_) start();
    served_.model.async_generate(
        rich_request(max_tokens_, 20), [](const StreamChunk&) {},
        [this](error_code, GenerateResult done) { chunked_.set_value(done.tokens.size()); });
    GenerateRequest sliced = rich_request(max_tokens_, 21);
    for (int32_t i = 0; i < 150; ++i) sliced.tokens.push_back(1 + i % 200);
    whole_ = served_.model.async_generate(sliced, asio::use_future);
    cancelled_ = served_.model.stream(rich_request(240, 22));
  }

  void finish() {
    EXPECT_FALSE(cancelled_.async_next(asio::use_future).get().tokens.empty());
    cancelled_.cancel();
    for (auto& wait : waits_) EXPECT_EQ(wait(), size_t(max_tokens_));
    EXPECT_EQ(chunked_.get_future().get(), 5 + size_t(max_tokens_));
    EXPECT_EQ(whole_.get().logprobs.size(), size_t(max_tokens_));
  }

 private:
  template <class Executor>
  void add(Executor executor) {
    auto reader = std::make_shared<Reader<Executor>>(
        served_.model.stream(rich_request(max_tokens_, int32_t(starts_.size()))), executor);
    starts_.push_back([reader] { reader->start(); });
    waits_.push_back([reader] { return reader->wait(); });
  }

  const ServedModel& served_;
  asio::thread_pool& pool_;
  const int32_t max_tokens_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> io_work_ = asio::make_work_guard(io_);
  std::thread io_thread_{[this] { io_.run(); }};
  std::vector<std::function<void()>> starts_;
  std::vector<std::function<size_t()>> waits_;
  std::promise<size_t> chunked_;
  std::future<GenerateResult> whole_;
  TokenStream cancelled_;
};

TEST_F(Allocations, AreCountedOnTheReplicasThreadAndOnItsWorkers) {
  ServedModel served(options());
  const auto count_of = [&](auto&& allocate) {
    std::promise<void> done;
    counting = true;
    visit_replica(served.model, [&](engine::BatchEngine&) {
      allocate();
      done.set_value();
    });
    done.get_future().wait();
    counting = false;
    return allocations.exchange(0);
  };
  EXPECT_EQ(count_of([] {}), 0);
  // The compiler may leave a pair of new and delete out; not these.
  const auto take = [] { ::operator delete(::operator new(100)); };
  EXPECT_EQ(count_of(take), 1);
  EXPECT_EQ(count_of([] {
              ::operator delete (::operator new (64, std::align_val_t{64}), std::align_val_t{64});
            }),
            1);
  EXPECT_EQ(count_of([] { std::free(std::calloc(10, 10)); }), 1);
  EXPECT_GE(count_of([&] {
              std::thread worker([&] {
                pthread_setname_np(pthread_self(), "tl-cpu-1");
                take();
                take();
              });
              worker.join();
            }),
            2);
}

// The first pass after an admission makes room for the newcomers; from then on to the last handler
// nothing is allocated, though sequences cross page borders and end at different times. The load
// before is a shorter one: it warms up what lasts, not what a longer sequence needs.
void expect_steps_without_allocation(const ModelOptions& options) {
  constexpr int32_t kTokens = 100, kLeastPasses = 200;
  asio::thread_pool pool(1);
  ServedModel served(options);
  const auto run = [&](int32_t max_tokens, std::function<void(engine::BatchEngine&)> prepare) {
    Load load(served, pool, max_tokens);
    {
      const Pause pause(served.model);
      visit_replica(served.model, std::move(prepare));
      load.start();
    }
    load.finish();
  };
  run(kTokens / 5, [](engine::BatchEngine&) {});
  std::atomic<int> passes{0};
  run(kTokens, [&](engine::BatchEngine& engine) {
    engine.set_plan_observer([&](const engine::StepPlan&) { counting = ++passes > 1; });
  });
  counting = false;
  EXPECT_GE(passes.load(), kLeastPasses);
  EXPECT_GE(served.model.statistics().completed_cancelled, 1u);
}

TEST_F(Allocations, AStepAllocatesNothingAfterTheWarmUp) {
  expect_steps_without_allocation(options());
  expect_none();
}

TEST_F(Allocations, TracingAllocatesNothingInAStep) {
  ModelOptions traced = options();
  traced.trace_events = 1000;  // many more are written
  expect_steps_without_allocation(traced);
  expect_none();
}

// The same behind cached prefixes: rows are restored, shared pages copied, and a handle dropped
// while it is in use.
TEST_F(Allocations, AStepBehindCachedPrefixesAllocatesNothingAfterTheWarmUp) {
  ServedModel served(options());
  const auto prefix_of = [](int32_t length) {
    PrefixRequest prefix{.loops = 3};
    for (int32_t i = 0; i < length; ++i) prefix.tokens.push_back(1 + i * 7 % 290);
    return prefix;
  };
  std::atomic<int> passes{0};
  for (const bool warm_up : {true, false}) {
    auto cache = served.model.async_build_prefix(prefix_of(37), asio::use_future).get();
    auto shallow = served.model.async_build_resume({prefix_of(37), 8}, asio::use_future).get();
    GenerateRequest whole = request(60, 1), further = request(60, 2), resumed = request(60, 3);
    for (GenerateRequest* what : {&whole, &further}) what->prefix = cache;
    whole.tokens.clear();
    resumed.resume = shallow;
    resumed.resume_loops = 6;
    resumed.config.loops = 2;
    std::vector<std::future<GenerateResult>> results;
    {
      const Pause pause(served.model);
      visit_replica(served.model, [&](engine::BatchEngine& engine) {
        if (warm_up) return;
        engine.set_plan_observer([&](const engine::StepPlan&) { counting = ++passes > 1; });
      });
      for (const auto* what : {&whole, &further, &resumed})
        results.push_back(served.model.async_generate(*what, asio::use_future));
      for (GenerateRequest* what : {&whole, &further, &resumed}) *what = {};
      cache = {};
      shallow = {};
    }
    for (auto& result : results) result.get();
    counting = false;
  }
  expect_none();
  EXPECT_GE(passes.load(), 100);
}

}  // namespace
}  // namespace tinyloop::testing

#endif
