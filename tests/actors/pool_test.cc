// PrefixPool through the public API: what it answers, and what it computes once.

#include <boost/asio/bind_cancellation_slot.hpp>
#include <functional>

#include "tests/actors/pool_fixture.h"

namespace tinyloop::testing {
namespace {

using boost::asio::use_future;

errc code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const boost::system::system_error& error) {
    return errc_of(error.code());
  }
  return errc::ok;
}

TEST_F(PoolTest, TheLongestPrefixServes) {
  PrefixPool pool(PoolOptions{});
  const Tokens a = some_tokens(1, 20), ab = joined(a, some_tokens(2, 30));
  EXPECT_EQ(enter(pool, prefix(a)), 1);
  EXPECT_EQ(enter(pool, prefix(ab)), 2);
  EXPECT_EQ(enter(pool, prefix(a)), 1);  // is there
  const auto question = prompt(joined(ab, some_tokens(3, 7)));
  const auto plain = generate(question);
  const uint64_t before = prompt_tokens();
  const auto pooled = generate(question, pool);
  EXPECT_EQ(pooled.tokens, plain.tokens);
  EXPECT_EQ(pooled.prompt_tokens, 57u);
  EXPECT_EQ(prompt_tokens() - before, 7u);
  EXPECT_EQ(info(pool, 2).hits, 1u);
  EXPECT_EQ(info(pool, 1).hits, 1u);  // the second registration
  const PoolStatistics figures = pool.statistics();
  EXPECT_EQ(figures.entries, 2u);
  EXPECT_EQ(figures.hits, 1u);
  EXPECT_EQ(figures.tokens_saved, 50u);
  EXPECT_EQ(figures.bytes, info(pool, 1).bytes + info(pool, 2).bytes);
}

TEST_F(PoolTest, TheWholePromptNeedsNoPass) {
  PrefixPool pool(PoolOptions{});
  const Tokens a = some_tokens(4, 33);
  enter(pool, prefix(a));
  const uint64_t before = model_.statistics().block_rows;
  auto request = prompt(a);
  request.config.max_tokens = 1;
  EXPECT_EQ(generate(request, pool).tokens.size(), 34u);
  EXPECT_EQ(model_.statistics().block_rows, before);
}

// A prefix serves with the part that the prompt shares; one with a window only whole.
TEST_F(PoolTest, APartOfAPrefixServesWhereItHasNoWindow) {
  const Tokens shared = some_tokens(5, 40);
  for (const int32_t window : {0, 24}) {
    PrefixPool pool(PoolOptions{});
    enter(pool, prefix(joined(shared, some_tokens(6, 9)), 3, window));
    const auto question = prompt(joined(shared, some_tokens(7, 9)), 3, window);
    EXPECT_EQ(generate(question, pool).tokens, generate(question).tokens);
    EXPECT_EQ(pool.statistics().tokens_saved, window == 0 ? 40u : 0u);
    EXPECT_EQ(pool.statistics().misses, window == 0 ? 0u : 1u);
  }
}

TEST_F(PoolTest, NestedPrefixesSharePages) {
  PrefixPool pool(PoolOptions{});
  const Tokens a = some_tokens(8, 64), ab = joined(a, some_tokens(9, 64));
  enter(pool, prefix(a));
  const size_t alone = model_.memory().page_bytes_used;
  const uint64_t before = prompt_tokens();
  enter(pool, prefix(ab));
  EXPECT_EQ(prompt_tokens() - before, 64u);
  EXPECT_EQ(model_.memory().page_bytes_used, 2 * alone);
  EXPECT_EQ(info(pool, 2).bytes - info(pool, 1).bytes, alone);
}

TEST_F(PoolTest, TheLeastRecentlyUsedGoesAndItsIdComesBack) {
  PrefixPool pool({.capacity = 2});
  const Tokens a = some_tokens(10, 20), b = some_tokens(11, 20), c = some_tokens(12, 20);
  EXPECT_EQ(enter(pool, prefix(a)), 1);
  EXPECT_EQ(enter(pool, prefix(b)), 2);
  generate(prompt(joined(a, {5})), pool);  // b is the older one now
  EXPECT_EQ(enter(pool, prefix(c)), 2);
  EXPECT_EQ(info(pool, 1).hits, 1u);
  EXPECT_EQ(info(pool, 2).hits, 0u);
  EXPECT_FALSE(info(pool, 3).live);
  EXPECT_FALSE(info(pool, 0).live);
  EXPECT_FALSE(info(pool, -1).live);
  EXPECT_EQ(pool.statistics().evicted, 1u);
  const uint64_t misses = pool.statistics().misses;
  generate(prompt(joined(b, {5})), pool);
  EXPECT_EQ(pool.statistics().misses, misses + 1);
}

TEST_F(PoolTest, BytesBoundThePool) {
  const Tokens a = some_tokens(13, 32), b = some_tokens(14, 32), large = some_tokens(15, 90);
  PrefixPool probe(PoolOptions{});
  enter(probe, prefix(a));
  const size_t bytes = probe.statistics().bytes;
  PrefixPool pool({.capacity_bytes = bytes + bytes / 2});
  enter(pool, prefix(a));
  EXPECT_EQ(enter(pool, prefix(b)), 1);  // in its place
  EXPECT_EQ(pool.statistics().bytes, bytes);
  EXPECT_EQ(code_of([&] { enter(pool, prefix(large)); }), errc::out_of_memory);
  EXPECT_EQ(info(pool, 1).positions, 32);
}

TEST_F(PoolTest, OtherDepthsAloneAreAMismatch) {
  PrefixPool pool(PoolOptions{});
  const Tokens a = some_tokens(16, 20);
  enter(pool, prefix(a, 2));
  EXPECT_EQ(code_of([&] { generate(prompt(joined(a, {1}), 3), pool); }), errc::loop_mismatch);
  EXPECT_EQ(code_of([&] { generate(prompt(joined(a, {1}), 2), pool); }), errc::ok);
  EXPECT_EQ(code_of([&] { generate(prompt(some_tokens(17, 20), 3), pool); }), errc::ok);
  enter(pool, prefix(Tokens(a.begin(), a.begin() + 18), 3));
  EXPECT_EQ(code_of([&] { generate(prompt(joined(a, {1}), 3), pool); }), errc::ok);
}

TEST_F(PoolTest, OneModelAndNoEmptyPools) {
  EXPECT_EQ(code_of([] { PrefixPool({.capacity = 0}); }), errc::invalid_argument);
  EXPECT_EQ(code_of([&] { enter(PrefixPool(), prefix({1})); }), errc::invalid_argument);
  PrefixPool pool(PoolOptions{});
  Model other = engine_.load(small_model().path(), small_options());
  other.async_register_prefix(pool, prefix({1, 2, 3}), use_future).get();
  EXPECT_EQ(code_of([&] { enter(pool, prefix({1, 2, 3})); }), errc::wrong_model);
  EXPECT_EQ(code_of([&] { generate(prompt({1, 2, 3, 4}), pool); }), errc::wrong_model);
  EXPECT_EQ(code_of([&] { info(pool, 1); }), errc::wrong_model);
  EXPECT_FALSE(info(PrefixPool(PoolOptions{}), 1).live);
}

TEST_F(PoolTest, WhoeverRegistersTheSameHasItComputedOnce) {
  PrefixPool pool(PoolOptions{});
  const Tokens a = some_tokens(18, 60);
  std::vector<std::future<int32_t>> ids;
  std::future<GenerateResult> generated;
  {
    const Pause pause(model_);
    for (int i = 0; i < 5; ++i) {
      ids.push_back(model_.async_register_prefix(pool, prefix(a), use_future));
    }
    auto question = prompt(joined(a, {9}));
    question.pool = pool;
    generated = model_.async_generate(question, use_future);
  }
  for (auto& id : ids) EXPECT_EQ(id.get(), 1);
  generated.get();
  EXPECT_EQ(pool.statistics().registered, 1u);
  EXPECT_EQ(prompt_tokens(), 61u);
}

// Whoever waits for a prefix goes on by itself when the one who computes it does not.
TEST_F(PoolTest, ACancelledRegistrationLeavesItToTheNext) {
  PrefixPool pool(PoolOptions{});
  const Tokens a = some_tokens(19, 60);
  boost::asio::cancellation_signal signal;
  std::promise<errc> first;
  std::future<int32_t> second;
  {
    StepGate gate(model_);
    model_.async_register_prefix(
        pool, prefix(a),
        boost::asio::bind_cancellation_slot(
            signal.slot(), [&](error_code error, int32_t) { first.set_value(errc_of(error)); }));
    gate.wait_until_stopped();
    second = model_.async_register_prefix(pool, prefix(a), use_future);
    signal.emit(boost::asio::cancellation_type::total);
    gate.open();
  }
  EXPECT_EQ(first.get_future().get(), errc::operation_aborted);
  EXPECT_EQ(second.get(), 1);
  EXPECT_EQ(pool.statistics().registered, 1u);
}

TEST_F(PoolTest, AnAutomaticPoolRegistersPrompts) {
  PrefixPool pool({.capacity = 4, .automatic = true});
  const Tokens turn = some_tokens(20, 30);
  const auto first = generate(prompt(turn), pool);
  EXPECT_EQ(first.tokens, generate(prompt(turn)).tokens);
  EXPECT_EQ(pool.statistics().registered, 1u);
  const auto second = prompt(joined(first.tokens, some_tokens(21, 5)));
  EXPECT_EQ(generate(second, pool).tokens, generate(second).tokens);
  EXPECT_EQ(pool.statistics().tokens_saved, 30u);
  EXPECT_EQ(pool.statistics().registered, 2u);
  EXPECT_EQ(generate(prompt(turn), pool).tokens, first.tokens);
  EXPECT_EQ(code_of([&] { generate(prompt(turn, 2), pool); }), errc::ok);  // another depth: a miss
}

// A pool never keeps the budget from requests, whether they wait or not.
TEST_F(PoolTest, PrefixesGiveWayToRequests) {
  for (const WhenFull when_full : {WhenFull::fail, WhenFull::wait}) {
    ModelOptions options = small_options();
    PrefixPool pool({.capacity = 100});
    {
      PrefixPool probe(PoolOptions{});
      enter(probe, prefix(some_tokens(0, 96)));
      options.cache_budget_bytes = 4 * probe.statistics().bytes;
    }
    const Model tight = engine_.load(small_model().path(), options);
    for (int32_t i = 0; i < 3; ++i) {
      tight.async_register_prefix(pool, prefix(some_tokens(i, 96)), use_future).get();
    }
    EXPECT_EQ(pool.statistics().entries, 3u);
    auto large = prompt(some_tokens(50, 200));
    large.when_full = when_full;
    EXPECT_EQ(tight.async_generate(large, use_future).get().tokens.size(), 203u);
    EXPECT_EQ(pool.statistics().entries, 1u);  // no more went than had to
    EXPECT_EQ(pool.statistics().evicted, 2u);
  }
}

// Within the limits on handles, too, the least recently used goes before one is refused.
TEST_F(PoolTest, PrefixesGiveWayToNewOnesAtTheLimitsOnHandles) {
  PrefixPool probe(PoolOptions{});
  enter(probe, prefix(some_tokens(0, 40)));
  const size_t bytes = probe.statistics().bytes;
  for (const bool by_bytes : {false, true}) {
    ModelOptions options = small_options();
    if (by_bytes) options.handle_budget_bytes = 3 * bytes;
    if (!by_bytes) options.max_handles = 3;
    const Model tight = engine_.load(small_model().path(), options);
    const auto enter_tight = [&](const PrefixPool& pool, int32_t seed) {
      return tight.async_register_prefix(pool, prefix(some_tokens(seed, 40)), use_future).get();
    };
    const PrefixCache held = tight.async_build_prefix(prefix(some_tokens(9, 40)), use_future).get();
    PrefixPool pool({.capacity = 100});
    for (int32_t i = 0; i < 6; ++i) enter_tight(pool, i);
    EXPECT_EQ(pool.statistics().entries, 2u);
    EXPECT_EQ(pool.statistics().evicted, 4u);
    EXPECT_EQ(enter_tight(pool, 5), 2);  // the last one is there

    PrefixPool other(PoolOptions{});  // what it has not got, it cannot give
    EXPECT_EQ(code_of([&] { enter_tight(other, 7); }), errc::overloaded);
    EXPECT_EQ(pool.statistics().entries, 2u);
  }
}

TEST_F(PoolTest, ItsPrefixesGoWithTheLastReference) {
  {
    PrefixPool pool(PoolOptions{}), copy = pool;
    enter(pool, prefix(some_tokens(22, 40)));
    pool = {};
    EXPECT_GT(model_.memory().pages_used, 0u);
    EXPECT_EQ(enter(copy, prefix(some_tokens(22, 40))), 1);
  }
  generate(prompt({1, 2}));  // the release came before it
  EXPECT_EQ(model_.memory().pages_used, 0u);
  EXPECT_EQ(model_.memory().handles, 0u);
  EXPECT_EQ(model_.memory().cache_reserved, 0u);
}

// The figures show it, too, before the replica does anything else.
TEST_F(PoolTest, ItsPrefixesGoAtOnce) {
  {
    PrefixPool pool(PoolOptions{});
    enter(pool, prefix(some_tokens(23, 40)));
  }
  std::promise<void> reached;
  visit_replica(model_, [&](engine::BatchEngine&) { reached.set_value(); });
  reached.get_future().wait();
  EXPECT_EQ(model_.memory().pages_used, 0u);
  EXPECT_EQ(model_.memory().cache_reserved, 0u);
}

TEST_F(PoolTest, ARefusedRequestLetsItGo) {
  boost::asio::cancellation_signal signal;  // refers to the refused request as long as it lives
  std::vector<std::future<GenerateResult>> futures;
  {
    PrefixPool pool(PoolOptions{});
    enter(pool, prefix(some_tokens(24, 40)));
    const Pause pause(model_);
    for (int32_t i = 0; i < small_options().max_queued; ++i) {
      futures.push_back(model_.async_generate(request(1), use_future));
    }
    auto one_more = request(1);
    one_more.pool = pool;
    auto refused = model_.async_generate(
        one_more, boost::asio::bind_cancellation_slot(signal.slot(), use_outcome()));
    EXPECT_TRUE(error_of(refused) == errc::overloaded);
  }
  for (auto& future : futures) future.get();
  generate(prompt({1, 2}));
  EXPECT_EQ(model_.memory().handles, 0u);
  EXPECT_EQ(model_.memory().pages_used, 0u);
}

// Who did not ask to wait does not wait for a prefix either that cannot be computed now.
TEST_F(PoolTest, AParkedRequestWaitsNoLongerThanItAskedFor) {
  ModelOptions options = small_options();
  PrefixRequest large = prefix(some_tokens(25, 48));
  {
    PrefixPool probe(PoolOptions{});
    enter(probe, large);
    options.cache_budget_bytes = probe.statistics().bytes;
  }
  const Model tight = engine_.load(small_model().path(), options);
  PrefixCache handle = tight.async_build_prefix(large, use_future).get();
  const PrefixPool pool(PoolOptions{});
  const Tokens scaffold = some_tokens(26, 20);
  auto entered = tight.async_register_prefix(pool, prefix(scaffold), use_future);
  auto question = prompt(joined(scaffold, {1, 2}));
  question.pool = pool;
  question.when_full = WhenFull::fail;
  EXPECT_EQ(code_of([&] { tight.async_generate(question, use_future).get(); }), errc::overloaded);
  question.when_full = WhenFull::wait_for_requests;
  EXPECT_EQ(code_of([&] { tight.async_generate(question, use_future).get(); }),
            errc::out_of_memory);
  handle = {};
  EXPECT_EQ(entered.get(), 1);
}

TEST_F(PoolTest, APoolOutlivesModelAndEngine) {
  PrefixPool pool(PoolOptions{});
  enter(pool, prefix({1, 2, 3}));
  model_.async_unload(ShutdownMode::drain, use_future).get();
  EXPECT_EQ(code_of([&] { enter(pool, prefix({1, 2, 3})); }), errc::model_closed);
  engine_ = Engine(quiet());
  EXPECT_EQ(pool.statistics().entries, 0u);
  EXPECT_EQ(pool.statistics().registered, 1u);
}

}  // namespace
}  // namespace tinyloop::testing
