// The blocking interface: what the documents promise of its results, defaults and lifetimes.
#include "tinyloop/blocking.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <type_traits>

#include "tests/actors/blocking_fixture.h"

// The declarations of the two documents, as they are there.
namespace tinyloop::documents {

Model* load_model(const std::string& path, int max_seq_len = 2048, int prefill_chunk = 0);
void free_model(Model* model);
size_t vram_usage_bytes(Model* model);
PrefixCache* build_prefix_cache(Model* model, const int32_t* tokens, int seq_len, int n_loops = 8,
                                int cache_window = 0);
void free_prefix_cache(PrefixCache* prefix_cache);
std::vector<int32_t> generate_from_prefix_cache(Model* model, const PrefixCache* prefix_cache,
                                                const GenerateConfig& config);
ResumeHandle* build_resume_handle(Model* model, const int32_t* tokens, int seq_len, int L_used,
                                  int max_loops = 32, int cache_window = 0);
std::vector<int32_t> resume_generate(Model* model, const ResumeHandle* handle, int new_L,
                                     const GenerateConfig& config);
void free_resume_handle(ResumeHandle* handle);
PrefixPool* create_prefix_pool(size_t capacity = 16);
int register_prefix(PrefixPool* pool, Model* model, const int32_t* tokens, int seq_len,
                    int n_loops = 8, int cache_window = 0);
std::vector<int32_t> generate_with_pool(Model* model, PrefixPool* pool, const int32_t* prompt,
                                        int prompt_len, const GenerateConfig& config);
void free_prefix_pool(PrefixPool* pool);

}  // namespace tinyloop::documents

namespace tinyloop::testing {
namespace {

// ---- The documents' text
// -------------------------------------------------------------------------

#define TINYLOOP_EXPECT_DOCUMENTED(function) \
  static_assert(std::is_same_v<decltype(tinyloop::function), decltype(documents::function)>)
TINYLOOP_EXPECT_DOCUMENTED(load_model);
TINYLOOP_EXPECT_DOCUMENTED(free_model);
TINYLOOP_EXPECT_DOCUMENTED(vram_usage_bytes);
TINYLOOP_EXPECT_DOCUMENTED(build_prefix_cache);
TINYLOOP_EXPECT_DOCUMENTED(free_prefix_cache);
TINYLOOP_EXPECT_DOCUMENTED(generate_from_prefix_cache);
TINYLOOP_EXPECT_DOCUMENTED(build_resume_handle);
TINYLOOP_EXPECT_DOCUMENTED(resume_generate);
TINYLOOP_EXPECT_DOCUMENTED(free_resume_handle);
TINYLOOP_EXPECT_DOCUMENTED(create_prefix_pool);
TINYLOOP_EXPECT_DOCUMENTED(register_prefix);
TINYLOOP_EXPECT_DOCUMENTED(generate_with_pool);
TINYLOOP_EXPECT_DOCUMENTED(free_prefix_pool);

// Whether a default argument is there; which one is seen when the model runs.
template <class M>
concept HasTheDefaults = requires(M* model, const int32_t* tokens, PrefixPool* pool) {
  tinyloop::load_model("");
  tinyloop::load_model("", 1);
  tinyloop::build_prefix_cache(model, tokens, 1);
  tinyloop::build_prefix_cache(model, tokens, 1, 8);
  tinyloop::build_resume_handle(model, tokens, 1, 1);
  tinyloop::build_resume_handle(model, tokens, 1, 1, 32);
  tinyloop::create_prefix_pool();
  tinyloop::register_prefix(pool, model, tokens, 1);
  tinyloop::register_prefix(pool, model, tokens, 1, 8);
};
static_assert(HasTheDefaults<Model>);

struct UserTurn {
  std::vector<StopSequence> stops;
};

// The documents' example between the two lines, unchanged.
void documented_example(tinyloop::Model* model, const std::vector<int32_t>& sys_prompt,
                        const std::vector<UserTurn>& batch) {
  // clang-format off
  // ----
// 為共享 system prompt 建構一次
auto* prefix = tinyloop::build_prefix_cache(model, sys_prompt.data(), sys_prompt.size(), 8);

// 跨多次請求重用
tinyloop::GenerateConfig cfg;
cfg.loops = 8;
cfg.max_tokens = 128;
for (const auto& user_turn : batch) {
    cfg.stop_sequences = user_turn.stops;
    auto out = tinyloop::generate_from_prefix_cache(model, prefix, cfg);
    // prefix 未被修改;可安全重用
}

tinyloop::free_prefix_cache(prefix);
  // ----
  // clang-format on
}

TEST_F(BlockingTest, TheDocumentsExampleRuns) {
  documented_example(model_, prompt_of(1), {{{}}, {{Tokens{7}, "ab"}}});
  const Statistics statistics = model_->statistics();
  EXPECT_EQ(statistics.completed_ok, 3u);
  EXPECT_EQ(statistics.prompt_tokens, 5u);  // once
}

// ---- Defaults
// ------------------------------------------------------------------------------------

size_t rows_of(const Model& model, const std::string& name) {
  for (const auto& buffer : model.memory().buffer_list)
    if (buffer.name == name) return buffer.rows;
  return 0;
}

TEST(Blocking, LoadModelsDefaults) {
  Model* model = load_model(small_model().path());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->info().max_seq_len, 2048);
  EXPECT_EQ(rows_of(*model, "main"), 2048u);
  EXPECT_EQ(rows_of(*model, "norm"), 2048u);
  free_model(model);
}

TEST(Blocking, LoadModelPassesItsArgumentsOn) {
  Model* model = load_model(small_model().path(), 128, 32);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->info().max_seq_len, 128);
  EXPECT_EQ(rows_of(*model, "main"), 128u);
  EXPECT_EQ(rows_of(*model, "norm"), 32u);
  free_model(model);
}

TEST_F(BlockingTest, HandlesDefaults) {
  const Tokens prompt = prompt_of(1);
  PrefixCache* prefix = build_prefix_cache(model_, prompt.data(), 5);
  ASSERT_NE(prefix, nullptr);
  EXPECT_EQ(prefix->info().loops, 8);
  EXPECT_EQ(prefix->info().cache_window, 0);
  EXPECT_EQ(prefix->info().positions, 5);
  free_prefix_cache(prefix);
  ResumeHandle* resume = build_resume_handle(model_, prompt.data(), 5, 2);
  ASSERT_NE(resume, nullptr);
  EXPECT_EQ(resume->info().loops, 2);
  EXPECT_EQ(resume->info().max_loops, 32);
  EXPECT_EQ(resume->info().cache_window, 0);
  free_resume_handle(resume);
}

TEST_F(BlockingTest, LoopsUnsetAreEight) {
  const Tokens prompt = prompt_of(2);
  const Tokens expected = generated(*model_, prompt, config_of(12, 8));
  ASSERT_NE(expected, generated(*model_, prompt, config_of(12)));  // the file's default is 4
  EXPECT_EQ(generate(model_, prompt, config_of(12)), expected);
  PrefixCache* prefix = build_prefix_cache(model_, prompt.data(), 5);
  EXPECT_EQ(generate_from_prefix_cache(model_, prefix, config_of(12)), expected);
  free_prefix_cache(prefix);
}

// ---- Results
// -------------------------------------------------------------------------------------

TEST_F(BlockingTest, GenerateEqualsTheAsynchronousOne) {
  for (int32_t loops : {1, 4, 16}) {
    GenerateConfig config = config_of(20, loops);
    const Tokens prompt = prompt_of(loops, 40);
    EXPECT_EQ(generate(model_, prompt, config), generated(*model_, prompt, config));
    config.temperature = 0.9f;
    config.seed = 7;
    config.cache_window = 16;
    const Tokens tokens = generate(model_, prompt, config);
    EXPECT_EQ(tokens, generated(*model_, prompt, config));
    EXPECT_EQ(Tokens(tokens.begin(), tokens.begin() + 40), prompt);
    EXPECT_EQ(tokens.size(), 60u);
  }
}

TEST_F(BlockingTest, APrefixCacheGivesTheSame) {
  const Tokens prompt = prompt_of(3, 21);
  for (int32_t window : {0, 16}) {
    PrefixCache* prefix = build_prefix_cache(model_, prompt.data(), 21, 4, window);
    ASSERT_NE(prefix, nullptr);
    GenerateConfig config = config_of(20, 4);
    config.temperature = 0.9f;
    const Tokens first = generate_from_prefix_cache(model_, prefix, config);
    EXPECT_EQ(generate_from_prefix_cache(model_, prefix, config), first);
    config.cache_window = window;
    EXPECT_EQ(first, generated(*model_, prompt, config));
    free_prefix_cache(prefix);
  }
}

TEST_F(BlockingTest, AResumeGivesTheSame) {
  const Tokens prompt = prompt_of(4, 21);
  ResumeHandle* handle = build_resume_handle(model_, prompt.data(), 21, 2, 8);
  ASSERT_NE(handle, nullptr);
  for (int new_L : {2, 5, 8}) {
    const Tokens expected = generated(*model_, prompt, config_of(10, new_L));
    EXPECT_EQ(resume_generate(model_, handle, new_L, config_of(10, new_L)), expected);
    EXPECT_EQ(resume_generate(model_, handle, new_L, config_of(10)), expected);  // unset: new_L
  }
  GenerateRequest shallow;
  shallow.resume = *handle;
  shallow.resume_loops = 8;
  shallow.config = config_of(10, 3);
  EXPECT_EQ(resume_generate(model_, handle, 8, config_of(10, 3)),
            model_->async_generate(shallow, boost::asio::use_future).get().tokens);
  free_resume_handle(handle);
}

TEST(Blocking, AModelOfAnEngineWillDo) {
  ServedModel served;
  Model* model = &served.model;
  const Tokens prompt = prompt_of(1);
  const Tokens expected = generated(served.model, prompt, config_of(6, 8));
  EXPECT_EQ(vram_usage_bytes(model), served.model.memory().model_bytes());
  EXPECT_EQ(generate(model, prompt, config_of(6)), expected);
  PrefixCache* prefix = build_prefix_cache(model, prompt.data(), 5);
  EXPECT_EQ(generate_from_prefix_cache(model, prefix, config_of(6)), expected);
  free_prefix_cache(prefix);
}

// Its own calls need no thread of the engine's but the replica's.
TEST(Blocking, CallsInsideAHandler) {
  ServedModel served;
  std::promise<Tokens> inside;
  served.model.async_generate(request(2), [&](error_code, GenerateResult) {
    inside.set_value(generate(&served.model, prompt_of(1), config_of(6)));
  });
  EXPECT_EQ(inside.get_future().get(), generated(served.model, prompt_of(1), config_of(6, 8)));
}

// ---- Many threads
// --------------------------------------------------------------------------------

// One call of some kind; a function of its seed.
Tokens call(Model* model, const PrefixCache* prefix, const ResumeHandle* resume, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return int32_t(random() % n); };
  GenerateConfig config = config_of(1 + below(12));
  config.temperature = below(2) ? 0.8f : 0.0f;
  config.seed = seed;
  const Tokens prompt = prompt_of(below(100), 1 + below(40));
  switch (below(4)) {
    case 0:
      return generate_from_prefix_cache(model, prefix, config);
    case 1:
      return resume_generate(model, resume, 2 + below(7), config);
    case 2: {
      PrefixCache* own = build_prefix_cache(model, prompt.data(), int(prompt.size()));
      const Tokens tokens = generate_from_prefix_cache(model, own, config);
      free_prefix_cache(own);
      return tokens;
    }
    default:
      config.loops = 1 + below(16);
      return generate(model, prompt, config);
  }
}

TEST_F(BlockingTest, EightThreadsGiveWhatOneGives) {
  constexpr uint32_t kThreads = 8, kCalls = 12, kSeed = 20;
  const Tokens prompt = prompt_of(9, 30);
  PrefixCache* prefix = build_prefix_cache(model_, prompt.data(), 30);
  ResumeHandle* resume = build_resume_handle(model_, prompt.data(), 30, 2, 8);
  std::vector<Tokens> serial, parallel(kThreads * kCalls);
  for (uint32_t i = 0; i < kThreads * kCalls; ++i)
    serial.push_back(call(model_, prefix, resume, kSeed + i));
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = t * kCalls; i < (t + 1) * kCalls; ++i)
        parallel[i] = call(model_, prefix, resume, kSeed + i);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(parallel, serial);
  free_resume_handle(resume);
  free_prefix_cache(prefix);
  EXPECT_EQ(model_->memory().pages_used, 0u);
}

// ---- Lifetimes and memory
// ------------------------------------------------------------------------

TEST(Blocking, EveryFreeTakesNull) {
  free_model(nullptr);
  free_prefix_cache(nullptr);
  free_resume_handle(nullptr);
  free_prefix_pool(nullptr);
}

TEST_F(BlockingTest, FreeGivesTheMemoryBackBeforeItReturns) {
  const Tokens prompt = prompt_of(1, 40);
  generate(model_, prompt, config_of(1));  // what is allocated once
  const size_t vram = vram_usage_bytes(model_);
  EXPECT_EQ(vram, model_->memory().total() - model_->memory().arena);
  PrefixCache* prefix = build_prefix_cache(model_, prompt.data(), 40);
  ResumeHandle* resume = build_resume_handle(model_, prompt.data(), 40, 2);
  EXPECT_GT(model_->memory().handles, 0u);
  EXPECT_EQ(vram_usage_bytes(model_), vram);
  free_prefix_cache(prefix);
  free_resume_handle(resume);
  EXPECT_EQ(model_->memory().handles, 0u);
  EXPECT_EQ(model_->memory().pages_used, 0u);
  EXPECT_EQ(model_->memory().cache_reserved, 0u);
}

TEST(Blocking, HandlesMayOutliveTheirModel) {
  Model* model = load_model(small_model().path(), 256);
  const Tokens prompt = prompt_of(1);
  PrefixCache* prefix = build_prefix_cache(model, prompt.data(), 5);
  ResumeHandle* resume = build_resume_handle(model, prompt.data(), 5, 2);
  free_model(model);
  EXPECT_EQ(prefix->info().positions, 5);
  free_resume_handle(resume);
  free_prefix_cache(prefix);
}

TEST(Blocking, FreeModelWaitsForWhatIsInFlight) {
  Model* model = load_model(small_model().path(), 256);
  const Model watch = *model;
  const Tokens expected = generate(model, prompt_of(1), config_of(60));
  std::vector<Tokens> results(3);
  std::vector<std::thread> threads;
  {
    StepGate gate(watch);
    for (auto& result : results)
      threads.emplace_back([&] { result = generate(model, prompt_of(1), config_of(60)); });
    const auto arrived = [&] {
      const auto replica = watch.health().replicas[0];
      return replica.queued + replica.active == results.size();
    };
    gate.wait_until_stopped();
    while (!arrived()) std::this_thread::yield();
    std::thread freer([&] { free_model(model); });
    while (watch.health().replicas[0].state == ReplicaState::serving) std::this_thread::yield();
    gate.open();
    freer.join();
  }
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, expected);
  EXPECT_EQ(watch.memory().total(), 0u);
}

TEST_F(BlockingTest, AHandleFreedInUseIsFreedAfterwards) {
  const Tokens prompt = prompt_of(1);
  const Tokens expected = generate(model_, prompt, config_of(30));
  PrefixCache* prefix = build_prefix_cache(model_, prompt.data(), 5);
  Tokens result;
  std::thread caller;
  {
    StepGate gate(*model_);
    caller =
        std::thread([&] { result = generate_from_prefix_cache(model_, prefix, config_of(30)); });
    gate.wait_until_stopped();
    gate.run(1);
    std::thread freer([&] { free_prefix_cache(prefix); });
    gate.open();
    freer.join();
    EXPECT_EQ(model_->memory().pages_used, 0u);
  }
  caller.join();
  EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace tinyloop::testing
