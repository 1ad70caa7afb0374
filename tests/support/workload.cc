#include "tests/support/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

namespace tinyloop::testing {

namespace {

Outcome outcome_of(const RecordingClient& client) {
  EXPECT_EQ(client.ends, 1);
  EXPECT_TRUE(client.finished.has_value());
  return {client.tokens, client.scores, client.logits_hash, client.text};
}

}  // namespace

Workload::Workload(uint32_t seed, int count, int32_t longest, int32_t vocab) {
  std::mt19937 random(seed);
  const auto pick = [&](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  for (int i = 0; i < count; ++i) {
    GenerateRequest r;
    // Mostly short, some long, some at the borders of pages and attention splits.
    const int32_t borders[] = {1, 15, 16, 17, 255, 256, 257, 511, 513, 1500};
    int32_t length = i % 8 == 0 ? pick(1, longest) : pick(1, 60);
    if (i % 5 == 0) length = borders[size_t(pick(0, 9))];
    for (int32_t t = 0; t < std::min(length, longest); ++t) r.tokens.push_back(pick(0, vocab - 1));
    r.config.max_tokens = pick(1, 12);
    r.config.loops = pick(1, 8);
    r.config.eos = EosMode::ignore;
    if (i % 3 == 0) r.config.cache_window = pick(1, 40);
    if (i % 2 == 0) {
      r.config.temperature = 0.9f;
      r.config.top_k = pick(0, 50);
      r.config.top_p = 0.95f;
      r.config.repetition_penalty = 1.1f;
      r.config.seed = uint64_t(pick(0, 1 << 30));
    }
    if (i % 7 < 2) {  // greedy ones among them
      r.config.presence_penalty = 0.5f;
      r.config.frequency_penalty = 0.25f;
      r.config.logit_bias = {{pick(0, vocab - 1), 3.0f}};
      r.config.min_tokens = pick(0, r.config.max_tokens);
      r.config.stop_sequences = {std::vector<int32_t>{pick(0, vocab - 1)}};
    }
    requests.push_back(std::move(r));
  }
}

std::vector<Outcome> run_alone(EngineDriver& driver, const Workload& work) {
  std::vector<Outcome> outcomes;
  for (const GenerateRequest& request : work.requests) {
    RecordingClient client;
    driver.admit(driver.check(request), client);
    driver.run();
    outcomes.push_back(outcome_of(client));
  }
  return outcomes;
}

std::vector<Outcome> run_batched(EngineDriver& driver, const Workload& work, size_t batch,
                                 uint32_t seed, RecordingClient::Logits logits) {
  std::mt19937 random(seed);
  std::vector<std::unique_ptr<RecordingClient>> clients;
  std::vector<size_t> order(work.requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  for (size_t i = 0; i < order.size(); ++i) {
    clients.push_back(std::make_unique<RecordingClient>(logits));
  }
  for (size_t next = 0; next < order.size() || driver.engine().active() > 0;) {
    while (next < order.size() && driver.engine().active() < batch && random() % 3 != 0) {
      driver.admit(driver.check(work.requests[order[next]]), *clients[order[next]]);
      ++next;
    }
    driver.engine().step();
  }
  std::vector<Outcome> outcomes;
  for (const auto& client : clients) outcomes.push_back(outcome_of(*client));
  return outcomes;
}

}  // namespace tinyloop::testing
