// PrefixPool through the public API: what it answers, what it computes once, and that the order in
// which the replica decides explains every answer.
//
// TINYLOOP_POOL_OPERATIONS=n runs the random test with that many operations.
#include "actors/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

using boost::asio::use_future;
using Tokens = std::vector<int32_t>;
using Kind = actors::PoolEvent::Kind;

Tokens some_tokens(int32_t seed, int32_t length) {
  Tokens tokens;
  for (int32_t i = 0; i < length; ++i) tokens.push_back((seed * 37 + i * 11 + i * i) % 300);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

GenerateRequest prompt(Tokens tokens, int32_t loops = 3, int32_t window = 0) {
  GenerateRequest request;
  request.tokens = std::move(tokens);
  request.config.max_tokens = 3;
  request.config.loops = loops;
  request.config.cache_window = window;
  request.config.eos = EosMode::ignore;
  request.when_full = WhenFull::wait;
  return request;
}

PrefixRequest prefix(Tokens tokens, int32_t loops = 3, int32_t window = 0) {
  return {.tokens = std::move(tokens),
          .loops = loops,
          .cache_window = window,
          .when_full = WhenFull::wait};
}

errc code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const boost::system::system_error& error) {
    return errc_of(error.code());
  }
  return errc::ok;
}

class PoolTest : public ::testing::Test {
 protected:
  int32_t enter(const PrefixPool& pool, PrefixRequest request) {
    return model_.async_register_prefix(pool, std::move(request), use_future).get();
  }
  GenerateResult generate(GenerateRequest request, const PrefixPool& pool = {}) {
    request.pool = pool;
    return model_.async_generate(std::move(request), use_future).get();
  }
  PoolEntryInfo info(const PrefixPool& pool, int32_t id) {
    return model_.async_prefix_info(pool, id, use_future).get();
  }
  uint64_t prompt_tokens() const { return model_.statistics().prompt_tokens; }

  Engine engine_{quiet()};
  Model model_ = engine_.load(small_model().path(), small_options());
};

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
  EXPECT_EQ(pool.statistics().entries, 1u);
}

// ---- Random operations --------------------------------------------------------------------------

// The pool as anybody would write it: a list, the most recently used last.
class NaivePool {
 public:
  explicit NaivePool(size_t capacity) : capacity_(capacity) {}

  // Does what the event says has been done, and says what is wrong with it.
  std::string apply(const actors::PoolEvent& event) {
    switch (event.kind) {
      case Kind::looked_up:
        return look_up(event);
      case Kind::found: {
        const auto entry = with_id(event.id);
        if (entry == entries_.end() || entry->tokens != event.tokens || entry->key != event.key) {
          return "found what is not there";
        }
        use(entry);
        return {};
      }
      case Kind::inserted:
        return insert(event);
      case Kind::yielded:
        return entries_.empty() || entries_.front().id != event.id
                   ? "another one yielded"
                   : (entries_.erase(entries_.begin()), "");
      case Kind::asked: {
        const auto entry = with_id(event.id);
        const auto length = entry == entries_.end() ? 0 : int32_t(entry->tokens.size());
        return length == event.positions ? "" : "info of another prefix";
      }
    }
    return "no such event";
  }

 private:
  struct Entry {
    int32_t id;
    engine::PrefixKey key;
    Tokens tokens;
  };
  using Place = std::vector<Entry>::iterator;

  Place with_id(int32_t id) {
    return std::find_if(entries_.begin(), entries_.end(), [&](auto& e) { return e.id == id; });
  }
  void use(Place entry) { std::rotate(entry, entry + 1, entries_.end()); }

  // The most positions that any entry gives; of equals the answer may be any.
  std::string look_up(const actors::PoolEvent& event) {
    const auto positions_of = [&](const Entry& entry) {
      if (entry.key != event.key) return int32_t{0};
      const auto [here, there] = std::mismatch(entry.tokens.begin(), entry.tokens.end(),
                                               event.tokens.begin(), event.tokens.end());
      auto common = int32_t(here - entry.tokens.begin());
      const bool whole = here == entry.tokens.end();
      if (whole) return common;
      if (entry.key.window > 0) return int32_t{0};
      return std::min(common, int32_t(event.tokens.size()) - 1);
    };
    int32_t best = 0;
    for (const Entry& entry : entries_) best = std::max(best, positions_of(entry));
    if (best != event.positions) {
      return "began with " + std::to_string(event.positions) + " positions, could have with " +
             std::to_string(best);
    }
    if (best == 0) return event.id == 0 ? "" : "served by nothing";
    const auto entry = with_id(event.id);
    if (entry == entries_.end() || positions_of(*entry) != best) return "served by another";
    use(entry);
    return {};
  }

  std::string insert(const actors::PoolEvent& event) {
    std::vector<int32_t> evicted;
    while (entries_.size() >= capacity_) {
      evicted.push_back(entries_.front().id);
      entries_.erase(entries_.begin());
    }
    if (evicted != event.evicted) return "evicted others";
    int32_t id = 1;
    while (with_id(id) != entries_.end()) ++id;
    if (id != event.id) return "another id";
    entries_.push_back({id, event.key, event.tokens});
    return {};
  }

  size_t capacity_;
  std::vector<Entry> entries_;
};

// What a caller saw of one operation.
struct Answer {
  Kind kind;
  Tokens tokens;
  engine::PrefixKey key;
  int32_t id = 0;         // registrations and questions
  int32_t positions = 0;  // questions
  std::chrono::steady_clock::time_point called{}, returned{};
};

// Whether each answer has a decision of its own between its call and its return.
::testing::AssertionResult each_has_its_event(std::vector<Answer> answers,
                                              const std::vector<actors::PoolEvent>& events) {
  using Signature = std::tuple<bool, Tokens, engine::PrefixKey, int32_t, int32_t>;
  std::map<Signature, std::multiset<std::chrono::steady_clock::time_point>> moments;
  for (const auto& e : events) {
    if (e.kind == Kind::yielded) continue;
    if (e.kind == Kind::looked_up) {
      moments[{true, e.tokens, e.key, 0, 0}].insert(e.at);
    } else if (e.kind == Kind::asked) {
      moments[{false, {}, {}, e.id, e.positions}].insert(e.at);
    } else {
      moments[{false, e.tokens, e.key, e.id, -1}].insert(e.at);
    }
  }
  std::sort(answers.begin(), answers.end(),
            [](const Answer& a, const Answer& b) { return a.returned < b.returned; });
  for (const Answer& a : answers) {
    Signature signature{true, a.tokens, a.key, 0, 0};
    if (a.kind == Kind::asked) signature = {false, {}, {}, a.id, a.positions};
    if (a.kind == Kind::found) signature = {false, a.tokens, a.key, a.id, -1};
    auto& times = moments[signature];
    const auto at = times.lower_bound(a.called);
    if (at == times.end() || *at > a.returned) {
      return ::testing::AssertionFailure() << "an answer of kind " << int(a.kind) << ", id " << a.id
                                           << ", has no decision in its time";
    }
    times.erase(at);
  }
  return ::testing::AssertionSuccess();
}

TEST_F(PoolTest, RandomOperationsHaveOneOrder) {
  const char* wanted = std::getenv("TINYLOOP_POOL_OPERATIONS");
  const int operations = wanted ? std::atoi(wanted) : 4000;
  constexpr int kThreads = 8;
  constexpr uint32_t kSeed = 77123;
  constexpr size_t kCapacity = 6;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  // Prompts that begin alike in many ways, and what they give without a pool.
  std::vector<GenerateRequest> prompts;
  std::map<std::pair<Tokens, engine::PrefixKey>, Tokens> expected;
  for (const engine::PrefixKey key : {engine::PrefixKey{2, 0}, engine::PrefixKey{2, 20}}) {
    for (int32_t i = 0; i < 12; ++i) {
      Tokens tokens = some_tokens(i % 3, 10 + 6 * (i % 4));
      tokens = joined(tokens, some_tokens(i % 2, 1 + 4 * (i % 3)));
      prompts.push_back(prompt(tokens, key.loops, key.window));
      expected[{tokens, key}] = generate(prompts.back()).tokens;
    }
  }
  PrefixPool pool({.capacity = kCapacity});
  std::vector<actors::PoolEvent> events;
  pool.ref()->book()->observer = [&](const actors::PoolEvent& event) { events.push_back(event); };

  enter(pool, prefix({1, 2, 3}, 2));  // a pool without prefixes is never asked

  std::vector<std::vector<Answer>> answers(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(kSeed + uint32_t(t));
      for (int i = 0; i < operations / kThreads; ++i) {
        const GenerateRequest& chosen = prompts[random() % prompts.size()];
        const engine::PrefixKey key{*chosen.config.loops, *chosen.config.cache_window};
        Answer answer{.kind = Kind::looked_up, .tokens = chosen.tokens, .key = key};
        answer.called = std::chrono::steady_clock::now();
        const uint32_t dice = random() % 10;
        if (dice < 5) {
          EXPECT_EQ(generate(chosen, pool).tokens, (expected[{chosen.tokens, key}]));
        } else if (dice < 8) {
          answer.kind = Kind::found;
          const auto length = 1 + random() % chosen.tokens.size();
          answer.tokens.resize(length);
          answer.id = enter(pool, prefix(answer.tokens, key.loops, key.window));
        } else {
          answer.kind = Kind::asked;
          answer.id = 1 + int32_t(random() % (kCapacity + 1));
          answer.positions = info(pool, answer.id).positions;
        }
        answer.returned = std::chrono::steady_clock::now();
        answers[size_t(t)].push_back(std::move(answer));
      }
    });
  }
  for (auto& thread : threads) thread.join();

  NaivePool naive(kCapacity);
  for (size_t i = 0; i < events.size(); ++i) ASSERT_EQ(naive.apply(events[i]), "") << "event " << i;
  std::vector<Answer> all;
  for (auto& some : answers) all.insert(all.end(), some.begin(), some.end());
  EXPECT_TRUE(each_has_its_event(std::move(all), events));
  pool = {};
  generate(prompt({1, 2}));
  EXPECT_EQ(model_.memory().pages_used, 0u);
  EXPECT_EQ(model_.memory().cache_reserved, 0u);
}

}  // namespace
}  // namespace tinyloop::testing
