// The order in which a replica decides for a PrefixPool explains every answer.
//
// TINYLOOP_POOL_OPERATIONS=n runs the test with that many operations.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "actors/pool.h"
#include "tests/actors/pool_fixture.h"

namespace tinyloop::testing {
namespace {

using Kind = actors::PoolEvent::Kind;

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
