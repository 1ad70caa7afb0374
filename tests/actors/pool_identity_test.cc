// A prompt gives the same logits, to the bit, whatever its pool holds of it.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/actors/handles.h"

namespace tinyloop::testing {
namespace {

using boost::asio::use_future;

// The bits of all logits behind the tokens of one generation, in order.
struct Trace {
  std::vector<int32_t> positions;
  std::vector<uint32_t> bits;

  bool operator==(const Trace&) const = default;
};

class PoolIdentity : public ::testing::Test {
 protected:
  PoolIdentity() {
    visit_replica(served_.model, [this](engine::BatchEngine& engine) {
      engine.set_logits_observer([this](int32_t position, std::span<const float> logits) {
        seen_.positions.push_back(position);
        const size_t before = seen_.bits.size();
        seen_.bits.resize(before + logits.size());
        std::memcpy(&seen_.bits[before], logits.data(), logits.size_bytes());
      });
    });
  }

  int32_t between(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }

  GenerateRequest random_request() {
    GenerateRequest what;
    const int32_t length = between(2, 120);
    for (int32_t i = 0; i < length; ++i) what.tokens.push_back(between(0, 299));
    GenerateConfig& config = what.config;
    const int32_t windows[] = {0, 16, 64};
    config.cache_window = windows[between(0, 2)];
    config.loops = between(1, 8);
    config.max_tokens = between(1, 6);
    config.eos = EosMode::ignore;
    config.logprobs = 0;  // else a greedy token's logits stay on the device
    if (between(0, 1) == 1) {
      config.temperature = 0.9f;
      config.seed = random_();
    }
    return what;
  }

  Trace generate(GenerateRequest what, const PrefixPool& pool = {}) {
    what.pool = pool;
    served_.generate(what);
    return std::exchange(seen_, {});
  }

  // Registers the first `count` tokens of the request.
  int32_t enter(const PrefixPool& pool, const GenerateRequest& what, int32_t count) {
    PrefixRequest prefix{.loops = what.config.loops, .cache_window = what.config.cache_window};
    prefix.tokens.assign(what.tokens.begin(), what.tokens.begin() + count);
    const int32_t id = served_.model.async_register_prefix(pool, prefix, use_future).get();
    seen_ = {};
    return id;
  }

  std::mt19937 random_{20261130};
  Trace seen_;  // written by the replica's thread while a request of ours runs
  ServedModel served_;
};

TEST_F(PoolIdentity, RegisteredNestedEvictedAndRegisteredAgain) {
  constexpr int kCases = 300;
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const GenerateRequest what = random_request();
    const auto length = int32_t(what.tokens.size());
    const int32_t outer = between(1, length), inner = between(1, outer);
    const Trace expected = generate(what);
    ASSERT_EQ(expected.positions.size(), size_t(what.config.max_tokens));

    PrefixPool pool({.capacity = 2});
    enter(pool, what, inner);
    EXPECT_EQ(generate(what, pool), expected) << "registered";
    enter(pool, what, outer);
    EXPECT_EQ(generate(what, pool), expected) << "nested";
    EXPECT_EQ(pool.statistics().hits, 2u);
    for (const int32_t id : {7, 8}) {
      GenerateRequest other = what;
      other.tokens = {299 - what.tokens[0], id};
      enter(pool, other, 2);
    }
    EXPECT_EQ(pool.statistics().evicted, inner == outer ? 1u : 2u);
    EXPECT_EQ(generate(what, pool), expected) << "evicted";
    EXPECT_EQ(pool.statistics().misses, 1u);
    enter(pool, what, outer);
    EXPECT_EQ(generate(what, pool), expected) << "registered again";
    EXPECT_EQ(pool.statistics().hits, 3u);

    PrefixPool automatic({.automatic = true});
    EXPECT_EQ(generate(what, automatic), expected) << "computed for an automatic pool";
    EXPECT_EQ(generate(what, automatic), expected) << "out of an automatic pool";
    EXPECT_EQ(automatic.statistics().hits, 1u);
  }
}

}  // namespace
}  // namespace tinyloop::testing
