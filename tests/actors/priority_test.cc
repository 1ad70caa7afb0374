// Who goes first: priorities, and how long they can hold others up.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/rank.h"
#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

GenerateRequest urgent(int32_t priority, int32_t max_tokens = 1) {
  GenerateRequest what = request(max_tokens);
  what.config.priority = priority;
  what.when_full = WhenFull::wait;
  return what;
}

ModelOptions one_at_a_time() {
  ModelOptions options = small_options();
  options.max_sequences = 1;
  options.max_queued = 1024;
  return options;
}

// The order in which requests of these priorities, sent one after another, come to their ends.
std::vector<int> order_of_ends(const std::vector<int32_t>& priorities) {
  const ServedModel served(one_at_a_time());
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::future<void>> done;
  {
    const Pause pause(served.model);
    for (int i = 0; i < int(priorities.size()); ++i) {
      auto promise = std::make_shared<std::promise<void>>();
      done.push_back(promise->get_future());
      served.model.async_generate(urgent(priorities[size_t(i)]),
                                  [&, i, promise](error_code error, const GenerateResult&) {
                                    EXPECT_FALSE(error);
                                    const std::lock_guard lock(mutex);
                                    order.push_back(i);
                                    promise->set_value();
                                  });
    }
  }
  for (auto& one : done) one.get();
  return order;
}

TEST(Priority, TheMoreUrgentBeginFirstAndEqualsInTheirOrder) {
  EXPECT_EQ(order_of_ends({0, 0, 5, -3, 16, 0, 5, -16}),
            (std::vector<int>{4, 2, 6, 0, 1, 5, 3, 7}));
}

TEST(Priority, NobodyIsHeldUpByMoreThanTheLeadAllows) {
  // One that comes first and is in no hurry, and a stream of others that are.
  std::vector<int32_t> priorities(200, 1);
  priorities.front() = 0;
  const std::vector<int> order = order_of_ends(priorities);
  const auto place = std::find(order.begin(), order.end(), 0) - order.begin();
  EXPECT_EQ(place, engine::kPriorityLead - 1);
}

TEST(Priority, AnyMixOfPrioritiesEndsInTheOrderOfRanks) {
  std::vector<int32_t> priorities;
  for (int32_t i = 0; i < 500; ++i) priorities.push_back((i * 7 + i * i) % 33 - 16);
  std::vector<int> expected(priorities.size());
  std::iota(expected.begin(), expected.end(), 0);
  std::stable_sort(expected.begin(), expected.end(), [&](int a, int b) {
    return engine::rank(uint64_t(a), priorities[size_t(a)]) <
           engine::rank(uint64_t(b), priorities[size_t(b)]);
  });
  EXPECT_EQ(order_of_ends(priorities), expected);
}

// Budget that is promised to those who wait goes to whoever goes before them.
TEST(Priority, APromiseGoesToTheMoreUrgent) {
  const size_t bytes = bytes_of(request(40));
  ModelOptions options = one_at_a_time();
  options.cache_budget_bytes = 2 * bytes;
  const ServedModel served(options);
  StepGate gate(served.model);
  auto running = served.model.async_generate(request(40), use_outcome());
  gate.run(1);
  auto patient = served.model.async_generate(urgent(0, 40), use_outcome());
  GenerateRequest impatient = urgent(1, 40);
  impatient.when_full = WhenFull::fail;  // it is promised its share, or refused
  auto first = served.model.async_generate(impatient, use_outcome());
  impatient.config.priority = 0;
  auto refused = served.model.async_generate(impatient, use_outcome());
  gate.run(1);
  EXPECT_TRUE(error_of(refused) == errc::overloaded);
  EXPECT_EQ(served.model.health().replicas[0].queued, 2u);
  gate.open();
  EXPECT_FALSE(error_of(running));
  EXPECT_FALSE(error_of(first));
  EXPECT_FALSE(error_of(patient));
}

template <class Start>
void expect_bounds(Start&& start) {
  for (const int32_t priority : {-17, 17}) {
    const error_code error = start(priority);
    EXPECT_TRUE(error == errc::invalid_argument);
    EXPECT_EQ(error.message(),
              "invalid argument: priority: " + std::to_string(priority) + ", allowed: -16 to 16");
  }
  EXPECT_FALSE(start(-16));
  EXPECT_FALSE(start(16));
}

TEST(Priority, IsBoundedInEveryRequest) {
  const ServedModel served;
  const Model& model = served.model;
  const std::vector<int32_t> tokens = request(1).tokens;
  expect_bounds(
      [&](int32_t priority) { return model.async_generate(urgent(priority), use_error()).get(); });
  expect_bounds([&](int32_t priority) {
    return model.async_score({.tokens = tokens, .priority = priority}, use_error()).get();
  });
  expect_bounds([&](int32_t priority) {
    return model.async_build_prefix({.tokens = tokens, .priority = priority}, use_error()).get();
  });
  expect_bounds([&](int32_t priority) {
    return model.async_build_resume({{.tokens = tokens, .priority = priority}}, use_error()).get();
  });
  const ResumeHandle handle =
      model.async_build_resume({{.tokens = tokens, .loops = 2}, 4}, boost::asio::use_future).get();
  expect_bounds([&](int32_t priority) {
    return model.async_deepen({.handle = handle, .loops = 3, .priority = priority}, use_error())
        .get();
  });
}

}  // namespace
}  // namespace tinyloop::testing
