// Prefix pools through the blocking interface.
#include <gtest/gtest.h>

#include <thread>

#include "tests/actors/blocking_fixture.h"

namespace tinyloop::testing {
namespace {

class BlockingPool : public BlockingTest {
 protected:
  ~BlockingPool() override { free_prefix_pool(pool_); }
  int enter(const Tokens& tokens, int loops = 8) {
    return register_prefix(pool_, model_, tokens.data(), int(tokens.size()), loops);
  }
  Tokens generate_pooled(const Tokens& prompt, const GenerateConfig& config) {
    return generate_with_pool(model_, pool_, prompt.data(), int(prompt.size()), config);
  }

  PrefixPool* const pool_ = create_prefix_pool();
};

TEST_F(BlockingPool, ServesTheLongestPrefix) {
  const Tokens prompt = prompt_of(1, 40);
  const int short_id = enter({prompt.begin(), prompt.begin() + 10});
  const int long_id = enter({prompt.begin(), prompt.begin() + 30});
  EXPECT_GT(short_id, 0);
  EXPECT_GT(long_id, 0);
  EXPECT_NE(short_id, long_id);
  EXPECT_EQ(enter({prompt.begin(), prompt.begin() + 10}), short_id);
  const uint64_t before = model_->statistics().prompt_tokens;
  EXPECT_EQ(generate_pooled(prompt, config_of(12)), generated(*model_, prompt, config_of(12, 8)));
  EXPECT_EQ(pool_->statistics().tokens_saved, 30u);
  EXPECT_EQ(model_->statistics().prompt_tokens - before, 10u + 40u);
}

TEST_F(BlockingPool, WithoutAMatchGeneratesPlainly) {
  const Tokens prompt = prompt_of(2, 20);
  EXPECT_EQ(generate_pooled(prompt, config_of(6)), generated(*model_, prompt, config_of(6, 8)));
  EXPECT_GT(enter(prompt_of(3, 20)), 0);
  EXPECT_EQ(generate_pooled(prompt, config_of(6)), generated(*model_, prompt, config_of(6, 8)));
}

TEST_F(BlockingPool, HoldsSixteenUnlessToldOtherwise) {
  for (int i = 0; i < 17; ++i) EXPECT_GT(enter(prompt_of(i, 6)), 0);
  EXPECT_EQ(pool_->statistics().entries, 16u);
  EXPECT_EQ(pool_->statistics().evicted, 1u);
}

TEST_F(BlockingPool, EightThreadsGiveWhatOneGives) {
  const Tokens prompt = prompt_of(1, 40);
  const Tokens expected = generated(*model_, prompt, config_of(8, 8));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      EXPECT_GT(enter({prompt.begin(), prompt.begin() + 8 + t % 4}), 0);
      for (int i = 0; i < 4; ++i) EXPECT_EQ(generate_pooled(prompt, config_of(8)), expected);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pool_->statistics().entries, 4u);
}

TEST(BlockingPools, MayOutliveTheirModel) {
  Model* model = load_model(small_model().path(), 256);
  PrefixPool* pool = create_prefix_pool(2);
  EXPECT_GT(register_prefix(pool, model, prompt_of(1).data(), 5), 0);
  free_model(model);
  free_prefix_pool(pool);
}

struct PoolBreach {
  const char* what;
  std::function<void()> call;
  errc condition;
  std::string message;
};

class BlockingPoolErrors : public BlockingPool {
 protected:
  std::vector<PoolBreach> breaches() {
    const int32_t* tokens = tokens_.data();
    const errc invalid = errc::invalid_argument;
    return {
        {"capacity", [] { create_prefix_pool(0); }, invalid,
         "create_prefix_pool: invalid argument: capacity: 0"},
        {"register without pool", [=, this] { register_prefix(nullptr, model_, tokens, 5); },
         invalid, "register_prefix: invalid argument: pool: null"},
        {"register with empty pool", [=, this] { register_prefix(&empty_, model_, tokens, 5); },
         invalid, "register_prefix: invalid argument: pool: empty"},
        {"register without model", [=, this] { register_prefix(pool_, nullptr, tokens, 5); },
         invalid, "register_prefix: invalid argument: model: null"},
        {"register without tokens", [=, this] { register_prefix(pool_, model_, nullptr, 5); },
         invalid, "register_prefix: invalid argument: tokens: null"},
        {"register nothing", [=, this] { register_prefix(pool_, model_, tokens, 0); }, invalid,
         "register_prefix: invalid argument: seq_len: 0, allowed: 1 to 256"},
        {"register depth", [=, this] { register_prefix(pool_, model_, tokens, 5, 17); }, invalid,
         "register_prefix: invalid argument: n_loops: 17, allowed: 1 to 16"},
        {"register window", [=, this] { register_prefix(pool_, model_, tokens, 5, 8, -1); },
         invalid, "register_prefix: invalid argument: cache_window: -1"},
        {"register with another model", [=, this] { register_prefix(pool_, other_, tokens, 5); },
         errc::wrong_model, "register_prefix: wrong model: "},
        {"generate without pool",
         [=, this] { generate_with_pool(model_, nullptr, tokens, 5, config_of(2)); }, invalid,
         "generate_with_pool: invalid argument: pool: null"},
        {"generate with empty pool",
         [=, this] { generate_with_pool(model_, &empty_, tokens, 5, config_of(2)); }, invalid,
         "generate_with_pool: invalid argument: pool: empty"},
        {"generate without model",
         [=, this] { generate_with_pool(nullptr, pool_, tokens, 5, config_of(2)); }, invalid,
         "generate_with_pool: invalid argument: model: null"},
        {"generate without prompt",
         [=, this] { generate_with_pool(model_, pool_, nullptr, 5, config_of(2)); }, invalid,
         "generate_with_pool: invalid argument: prompt: null"},
        {"generate from nothing",
         [=, this] { generate_with_pool(model_, pool_, tokens, 0, config_of(2)); }, invalid,
         "generate_with_pool: invalid argument: prompt_len: 0, allowed: 1 to 256"},
        {"generate with another model",
         [=, this] { generate_with_pool(other_, pool_, tokens, 20, config_of(2)); },
         errc::wrong_model, "generate_with_pool: wrong model: "},
        {"generate at another depth",
         [=, this] { generate_with_pool(model_, pool_, tokens, 20, config_of(2, 4)); },
         errc::loop_mismatch, "generate_with_pool: loop mismatch: "},
    };
  }

  const Tokens tokens_ = prompt_of(1, 20);
  PrefixPool empty_;
  ServedModel served_;
  Model* const other_ = &served_.model;
};

TEST_F(BlockingPoolErrors, Throw) {
  const Policy policy(ContractPolicy::throw_exception);
  ASSERT_GT(enter({tokens_.begin(), tokens_.begin() + 10}), 0);
  for (const PoolBreach& breach : breaches()) {
    SCOPED_TRACE(breach.what);
    try {
      breach.call();
      ADD_FAILURE() << "no error";
    } catch (const boost::system::system_error& error) {
      EXPECT_EQ(errc_of(error.code()), breach.condition) << error.what();
      EXPECT_NE(std::string(error.what()).find(breach.message), std::string::npos) << error.what();
    }
  }
}

TEST_F(BlockingPoolErrors, Abort) {
  if (!kDeathTestsWork) GTEST_SKIP() << "no death tests under this sanitizer";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ASSERT_GT(enter({tokens_.begin(), tokens_.begin() + 10}), 0);
  for (const PoolBreach& breach : breaches()) {
    SCOPED_TRACE(breach.what);
    EXPECT_DEATH(breach.call(), "tinyloop: " + breach.message);
  }
}

TEST_F(BlockingPool, RegistersNothingOnAModelThatIsUnloaded) {
  model_->async_unload(ShutdownMode::drain, boost::asio::use_future).get();
  EXPECT_EQ(enter(prompt_of(1)), 0);
}

}  // namespace
}  // namespace tinyloop::testing
