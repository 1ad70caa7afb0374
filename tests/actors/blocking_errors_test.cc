// Every documented error of the blocking interface, under both policies.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <ostream>

#include "tests/actors/blocking_fixture.h"

namespace tinyloop::testing {
namespace {

constexpr int kMaxSeqLen = 64;

// What the calls below use: a model, its handles, and another model.
struct World {
  World() {
    EXPECT_NE(model, nullptr);
    EXPECT_NE(prefix, nullptr);
    EXPECT_NE(resume, nullptr);
  }
  ~World() {
    free_resume_handle(resume);
    free_prefix_cache(prefix);
    free_model(other);
    free_model(model);
  }
  const int32_t* tokens() const { return prompt.data(); }

  const Tokens prompt = prompt_of(1, 100);
  Model* const model = load_model(small_model().path(), kMaxSeqLen);
  Model* const other = load_model(small_model().path(), kMaxSeqLen);
  PrefixCache* const prefix = build_prefix_cache(model, tokens(), 5);
  ResumeHandle* const resume = build_resume_handle(model, tokens(), 5, 4, 8);
};

struct Breach {
  const char* name;
  std::function<void(const World&)> call;
  errc condition;
  const char* message;  // a part of it
};

std::ostream& operator<<(std::ostream& out, const Breach& breach) {
  return out << breach.name;
}

GenerateConfig grammatical() {
  GenerateConfig config = config_of(2);
  config.grammar = "root ::= \"x\"";
  return config;
}

GenerateConfig hot() {
  GenerateConfig config = config_of(2);
  config.temperature = std::numeric_limits<float>::infinity();
  return config;
}

GenerateConfig windowed() {
  GenerateConfig config = config_of(2);
  config.cache_window = 16;
  return config;
}

const PrefixCache kEmptyPrefix;
const ResumeHandle kEmptyResume;

class BlockingErrors : public ::testing::TestWithParam<Breach> {};

TEST_P(BlockingErrors, Abort) {
  if (!kDeathTestsWork) GTEST_SKIP() << "no death tests under this sanitizer";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const World world;
  const std::string line = "^tinyloop: " + std::string(GetParam().message);
  EXPECT_DEATH(GetParam().call(world), line);
}

TEST_P(BlockingErrors, Throw) {
  const Policy policy(ContractPolicy::throw_exception);
  const World world;
  const Breach& breach = GetParam();
  try {
    breach.call(world);
    FAIL() << "no error";
  } catch (const boost::system::system_error& error) {
    EXPECT_EQ(errc_of(error.code()), breach.condition) << error.what();
    EXPECT_NE(std::string(error.what()).find(breach.message), std::string::npos) << error.what();
  }
  // Nothing is left behind, and nobody else is harmed.
  EXPECT_EQ(generate(world.model, prompt_of(1), config_of(2)).size(), 7u);
}

constexpr errc kInvalid = errc::invalid_argument;

#define TINYLOOP_BREACH(name, condition, message, ...)                  \
  Breach {                                                              \
#name, [](const World& w) { (void)w; __VA_ARGS__; }, condition, message \
  }

const auto kBreaches = ::testing::Values(
    // Null and empty where a value is needed.
    TINYLOOP_BREACH(generate_null_model, kInvalid, "generate: invalid argument: model: null",
                    tinyloop::generate(nullptr, w.tokens(), 5, config_of(2))),
    TINYLOOP_BREACH(generate_empty_model, errc::model_closed,
                    "generate: model closed: ", Model empty;
                    tinyloop::generate(&empty, w.tokens(), 5, config_of(2))),
    TINYLOOP_BREACH(generate_null_prompt, kInvalid, "generate: invalid argument: prompt: null",
                    tinyloop::generate(w.model, nullptr, 5, config_of(2))),
    TINYLOOP_BREACH(vram_null_model, kInvalid, "vram_usage_bytes: invalid argument: model: null",
                    vram_usage_bytes(nullptr)),
    TINYLOOP_BREACH(prefix_null_model, kInvalid,
                    "build_prefix_cache: invalid argument: model: null",
                    build_prefix_cache(nullptr, w.tokens(), 5)),
    TINYLOOP_BREACH(prefix_null_tokens, kInvalid,
                    "build_prefix_cache: invalid argument: tokens: null",
                    build_prefix_cache(w.model, nullptr, 5)),
    TINYLOOP_BREACH(from_null_model, kInvalid,
                    "generate_from_prefix_cache: invalid argument: model: null",
                    generate_from_prefix_cache(nullptr, w.prefix, config_of(2))),
    TINYLOOP_BREACH(from_null_prefix, kInvalid,
                    "generate_from_prefix_cache: invalid argument: prefix_cache: null",
                    generate_from_prefix_cache(w.model, nullptr, config_of(2))),
    TINYLOOP_BREACH(from_empty_prefix, kInvalid,
                    "generate_from_prefix_cache: invalid argument: prefix_cache: empty",
                    generate_from_prefix_cache(w.model, &kEmptyPrefix, config_of(2))),
    TINYLOOP_BREACH(resume_null_model, kInvalid,
                    "build_resume_handle: invalid argument: model: null",
                    build_resume_handle(nullptr, w.tokens(), 5, 4)),
    TINYLOOP_BREACH(resume_null_tokens, kInvalid,
                    "build_resume_handle: invalid argument: tokens: null",
                    build_resume_handle(w.model, nullptr, 5, 4)),
    TINYLOOP_BREACH(resumed_null_model, kInvalid, "resume_generate: invalid argument: model: null",
                    resume_generate(nullptr, w.resume, 8, config_of(2))),
    TINYLOOP_BREACH(resumed_null_handle, kInvalid,
                    "resume_generate: invalid argument: handle: null",
                    resume_generate(w.model, nullptr, 8, config_of(2))),
    TINYLOOP_BREACH(resumed_empty_handle, kInvalid,
                    "resume_generate: invalid argument: handle: empty",
                    resume_generate(w.model, &kEmptyResume, 8, config_of(2))),
    // Lengths and tokens.
    TINYLOOP_BREACH(generate_no_prompt, kInvalid,
                    "generate: invalid argument: prompt_len: 0, allowed: 1 to 64",
                    tinyloop::generate(w.model, w.tokens(), 0, config_of(2))),
    TINYLOOP_BREACH(generate_negative_prompt, kInvalid,
                    "generate: invalid argument: prompt_len: -1, allowed: 1 to 64",
                    tinyloop::generate(w.model, w.tokens(), -1, config_of(2))),
    TINYLOOP_BREACH(generate_endless_prompt, kInvalid,
                    "generate: invalid argument: prompt_len: 2147483647, allowed: 1 to 64",
                    tinyloop::generate(w.model, w.tokens(), INT32_MAX, config_of(2))),
    TINYLOOP_BREACH(generate_too_long, kInvalid, "generate: invalid argument: sequence length: ",
                    tinyloop::generate(w.model, w.tokens(), 60, config_of(5))),
    TINYLOOP_BREACH(generate_bad_token, kInvalid, "generate: invalid argument: prompt",
                    const int32_t bad = 300;
                    tinyloop::generate(w.model, &bad, 1, config_of(2))),
    TINYLOOP_BREACH(prefix_empty, kInvalid,
                    "build_prefix_cache: invalid argument: seq_len: 0, allowed: 1 to 64",
                    build_prefix_cache(w.model, w.tokens(), 0)),
    TINYLOOP_BREACH(prefix_too_long, kInvalid,
                    "build_prefix_cache: invalid argument: seq_len: 65, allowed: 1 to 64",
                    build_prefix_cache(w.model, w.tokens(), kMaxSeqLen + 1)),
    TINYLOOP_BREACH(from_too_long, kInvalid,
                    "generate_from_prefix_cache: invalid argument: sequence length: ",
                    generate_from_prefix_cache(w.model, w.prefix, config_of(60))),
    TINYLOOP_BREACH(resume_empty, kInvalid,
                    "build_resume_handle: invalid argument: seq_len: 0, allowed: 1 to 64",
                    build_resume_handle(w.model, w.tokens(), 0, 4)),
    TINYLOOP_BREACH(resume_too_long, kInvalid,
                    "build_resume_handle: invalid argument: seq_len: 65, allowed: 1 to 64",
                    build_resume_handle(w.model, w.tokens(), kMaxSeqLen + 1, 4)),
    TINYLOOP_BREACH(resumed_too_long, kInvalid,
                    "resume_generate: invalid argument: sequence length: ",
                    resume_generate(w.model, w.resume, 8, config_of(60))));

const auto kDepthsAndConfigs = ::testing::Values(
    TINYLOOP_BREACH(generate_loops, kInvalid, "generate: invalid argument: loops: 17, allowed: ",
                    tinyloop::generate(w.model, w.tokens(), 5, config_of(2, 17))),
    TINYLOOP_BREACH(generate_max_tokens, kInvalid, "generate: invalid argument: max_tokens: 0",
                    tinyloop::generate(w.model, w.tokens(), 5, config_of(0))),
    TINYLOOP_BREACH(generate_temperature, kInvalid, "generate: invalid argument: temperature: inf",
                    tinyloop::generate(w.model, w.tokens(), 5, hot())),
    TINYLOOP_BREACH(generate_grammar, kInvalid, "generate: invalid argument: grammar: 12 bytes",
                    tinyloop::generate(w.model, w.tokens(), 5, grammatical())),
    TINYLOOP_BREACH(prefix_no_loops, kInvalid,
                    "build_prefix_cache: invalid argument: n_loops: 0, allowed: 1 to 16",
                    build_prefix_cache(w.model, w.tokens(), 5, 0)),
    TINYLOOP_BREACH(prefix_many_loops, kInvalid,
                    "build_prefix_cache: invalid argument: n_loops: 17, allowed: 1 to 16",
                    build_prefix_cache(w.model, w.tokens(), 5, 17)),
    TINYLOOP_BREACH(prefix_window, kInvalid,
                    "build_prefix_cache: invalid argument: cache_window: -1",
                    build_prefix_cache(w.model, w.tokens(), 5, 8, -1)),
    TINYLOOP_BREACH(from_deeper, errc::loop_mismatch,
                    "generate_from_prefix_cache: loop mismatch: loops: 16",
                    generate_from_prefix_cache(w.model, w.prefix, config_of(2, 16))),
    TINYLOOP_BREACH(from_shallower, errc::loop_mismatch,
                    "generate_from_prefix_cache: loop mismatch: loops: 4",
                    generate_from_prefix_cache(w.model, w.prefix, config_of(2, 4))),
    TINYLOOP_BREACH(from_grammar, kInvalid,
                    "generate_from_prefix_cache: invalid argument: grammar: 12 bytes",
                    generate_from_prefix_cache(w.model, w.prefix, grammatical())),
    TINYLOOP_BREACH(from_window, kInvalid,
                    "generate_from_prefix_cache: invalid argument: cache_window: 16",
                    generate_from_prefix_cache(w.model, w.prefix, windowed())),
    TINYLOOP_BREACH(from_another_model, errc::wrong_model,
                    "generate_from_prefix_cache: wrong model: ",
                    generate_from_prefix_cache(w.other, w.prefix, config_of(2))),
    TINYLOOP_BREACH(resume_no_loops, kInvalid,
                    "build_resume_handle: invalid argument: L_used: 0, allowed: 1 to 16",
                    build_resume_handle(w.model, w.tokens(), 5, 0)),
    TINYLOOP_BREACH(resume_deeper_than_max, kInvalid,
                    "build_resume_handle: invalid argument: L_used: 5, allowed: 1 to 4",
                    build_resume_handle(w.model, w.tokens(), 5, 5, 4)),
    TINYLOOP_BREACH(resume_max_loops, kInvalid,
                    "build_resume_handle: invalid argument: max_loops: 65, allowed: 1 to 64",
                    build_resume_handle(w.model, w.tokens(), 5, 4, 65)),
    TINYLOOP_BREACH(resume_window, kInvalid,
                    "build_resume_handle: invalid argument: cache_window: -1",
                    build_resume_handle(w.model, w.tokens(), 5, 4, 8, -1)),
    TINYLOOP_BREACH(resumed_back, kInvalid,
                    "resume_generate: invalid argument: new_L: 3, allowed: 4 to 8",
                    resume_generate(w.model, w.resume, 3, config_of(2))),
    TINYLOOP_BREACH(resumed_too_deep, kInvalid,
                    "resume_generate: invalid argument: new_L: 9, allowed: 4 to 8",
                    resume_generate(w.model, w.resume, 9, config_of(2))),
    TINYLOOP_BREACH(resumed_loops_above, kInvalid,
                    "resume_generate: invalid argument: loops: 7, allowed: 1 to 6",
                    resume_generate(w.model, w.resume, 6, config_of(2, 7))),
    TINYLOOP_BREACH(resumed_grammar, kInvalid,
                    "resume_generate: invalid argument: grammar: 12 bytes",
                    resume_generate(w.model, w.resume, 8, grammatical())),
    TINYLOOP_BREACH(resumed_another_model, errc::wrong_model, "resume_generate: wrong model: ",
                    resume_generate(w.other, w.resume, 8, config_of(2))));

const auto name_of = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Arguments, BlockingErrors, kBreaches, name_of);
INSTANTIATE_TEST_SUITE_P(Configs, BlockingErrors, kDepthsAndConfigs, name_of);

// ---- Run-time failures
// ---------------------------------------------------------------------------

// A model of little K/V budget, all of which but a page or two a handle holds.
struct Narrow {
  Narrow() : served(options()) {
    ResumeHandle* handle = build_resume_handle(&served.model, prompt.data(), 64, 8, 16);
    while (handle) {
      handles.push_back(handle);
      const MemoryReport memory = served.model.memory();
      if (memory.cache_budget - memory.cache_reserved - memory.page_bytes_used < 1 << 18) break;
      handle = build_resume_handle(&served.model, prompt.data(), 64, 8, 16);
    }
  }
  ~Narrow() {
    for (ResumeHandle* handle : handles) free_resume_handle(handle);
  }
  static ModelOptions options() {
    ModelOptions options = small_options();
    options.cache_budget_bytes = 1 << 20;
    return options;
  }

  const Tokens prompt = prompt_of(1, 64);
  ServedModel served;
  std::vector<ResumeHandle*> handles;
};

TEST(BlockingFailures, NoMemoryGivesNullOrBreaksOff) {
  const Policy policy(ContractPolicy::throw_exception);
  Narrow narrow;
  Model* model = &narrow.served.model;
  const Tokens longer = prompt_of(1, 200);
  ASSERT_FALSE(narrow.handles.empty());
  EXPECT_EQ(build_prefix_cache(model, longer.data(), 200, 16), nullptr);
  const auto code_of = [](const auto& call) {
    try {
      call();
    } catch (const boost::system::system_error& error) {
      return errc_of(error.code());
    }
    return errc::ok;
  };
  EXPECT_EQ(code_of([&] { build_resume_handle(model, longer.data(), 200, 8, 32); }),
            errc::out_of_memory);
  EXPECT_EQ(code_of([&] { generate(model, longer, config_of(20, 16)); }), errc::out_of_memory);
  EXPECT_EQ(generate(model, prompt_of(1), config_of(2, 1)).size(), 7u);
}

TEST(BlockingFailures, NoMemoryForAResumeHandleAborts) {
  if (!kDeathTestsWork) GTEST_SKIP() << "no death tests under this sanitizer";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ServedModel served(Narrow::options());
  const Tokens longer = prompt_of(1, 200);
  EXPECT_DEATH(build_resume_handle(&served.model, longer.data(), 200, 8, 64),
               "tinyloop: build_resume_handle: out of memory: ");
  EXPECT_DEATH(generate(&served.model, longer, config_of(50, 16)),
               "tinyloop: generate: out of memory: ");
}

TEST(BlockingFailures, AModelThatIsUnloaded) {
  const Policy policy(ContractPolicy::throw_exception);
  ServedModel served;
  Model* model = &served.model;
  const Tokens prompt = prompt_of(1);
  PrefixCache* prefix = build_prefix_cache(model, prompt.data(), 5);
  served.model.async_unload(ShutdownMode::drain, boost::asio::use_future).get();
  EXPECT_EQ(build_prefix_cache(model, prompt.data(), 5), nullptr);
  EXPECT_EQ(build_resume_handle(model, prompt.data(), 5, 4), nullptr);
  EXPECT_THROW(generate(model, prompt, config_of(2)), boost::system::system_error);
  EXPECT_THROW(generate_from_prefix_cache(model, prefix, config_of(2)),
               boost::system::system_error);
  EXPECT_EQ(vram_usage_bytes(model), 0u);
  free_prefix_cache(prefix);
}

TEST(BlockingFailures, ADeviceThatFails) {
  const Policy policy(ContractPolicy::throw_exception);
  const auto device = std::make_shared<TestDevice>();
  EngineOn engine(test_backends(device));
  Model model = engine.load().second;
  const Tokens prompt = prompt_of(1);
  PrefixCache* prefix = build_prefix_cache(&model, prompt.data(), 5);
  device->fail_in = 1;
  EXPECT_EQ(build_prefix_cache(&model, prompt.data(), 5), nullptr);
  EXPECT_THROW(generate(&model, prompt, config_of(2)), boost::system::system_error);
  try {
    generate_from_prefix_cache(&model, prefix, config_of(2));
    FAIL() << "no error";
  } catch (const boost::system::system_error& error) {
    EXPECT_EQ(errc_of(error.code()), errc::handle_lost);
  }
  free_prefix_cache(prefix);
}

TEST(BlockingFailures, AFullMailboxIsWaitedFor) {
  ServedModel served;  // max_queued: 8
  std::vector<std::thread> threads;
  std::vector<Tokens> results(20);
  {
    const Pause pause(served.model);
    for (auto& result : results) {
      threads.emplace_back(
          [&] { result = generate(&served.model, prompt_of(1), config_of(2, 2)); });
    }
    while (served.model.health().replicas[0].queued < 20) std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result.size(), 7u);
}

TEST(BlockingFailures, ALoadThatFailsGivesNullAndSaysWhy) {
  const Policy policy(ContractPolicy::throw_exception);  // makes no difference
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(load_model("/no/such/file"), nullptr);
  EXPECT_EQ(load_model(small_model().path(), 0), nullptr);
  EXPECT_EQ(load_model(small_model().path(), 64, 65), nullptr);
  const std::string log = ::testing::internal::GetCapturedStderr();
  for (const char* part :
       {"load_model: input/output error", "/no/such/file: cannot open", "max_seq_len: 0",
        "load_model: invalid argument: prefill_chunk: 65, allowed: 0 to 64"}) {
    EXPECT_NE(log.find(part), std::string::npos) << log;
  }
}

TEST(BlockingFailures, AbortIsThePolicyUntilItIsSet) {
  EXPECT_EQ(contract_policy(), ContractPolicy::abort);
  {
    const Policy policy(ContractPolicy::throw_exception);
    EXPECT_EQ(contract_policy(), ContractPolicy::throw_exception);
  }
  EXPECT_EQ(contract_policy(), ContractPolicy::abort);
}

}  // namespace
}  // namespace tinyloop::testing
