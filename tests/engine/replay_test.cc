// A log of step plans is a complete record: carried out again on a fresh cache, by a runner that
// knows nothing of the requests, it gives the same logits to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/gguf_reader.h"
#include "engine/step_plan.h"
#include "engine/step_runner.h"
#include "tests/support/engine_driver.h"
#include "tests/support/random_model.h"
#include "tests/support/test_device.h"

namespace tinyloop::testing {
namespace {

using Key = std::pair<uint64_t, int32_t>;  // sequence, position
using Logits = std::vector<std::pair<Key, std::vector<float>>>;

// Takes the logits, and has the most likely token chosen.
class CollectingSink final : public engine::HeadSink {
 public:
  engine::HeadTerms terms(int32_t, int32_t) override { return {}; }
  bool wants_logits(int32_t) const override { return true; }
  void on_logits(int32_t chunk, int32_t position, std::span<const float> logits) override {
    rows.push_back(
        {{plan->chunks[size_t(chunk)].sequence, position}, {logits.begin(), logits.end()}});
  }
  void on_token(int32_t, int32_t, const kernels::ScoredToken& token,
                std::span<const kernels::ScoredToken>) override {
    const auto& logits = rows.back().second;
    EXPECT_EQ(token.token, std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  const engine::StepPlan* plan = nullptr;
  Logits rows;
};

// Runs printed plans; pages get the numbers that the plans name because they are taken in order.
Logits replay(const std::string& path, const ModelOptions& options,
              const std::vector<std::string>& log) {
  auto backend = kernels::make_backend(options).value();
  engine::MemoryLedger ledger;
  const auto file = engine::GgufFile::open(path).value();
  const auto spec = engine::read_model_spec(file).value();
  const auto weights = engine::ModelWeights::upload(spec, *backend).value();
  auto buffers =
      engine::BufferPool::allocate(engine::buffer_shape(spec, options), *backend, ledger).value();
  engine::KvCache cache(backend->memory(), ledger, spec.schedule(),
                        backend->kv_layout(spec.kv_heads, spec.head_dim), size_t{1} << 40);
  EXPECT_NE(buffers.logits(), nullptr);
  const engine::PrefixStore prefixes(cache, backend->memory(), {}, {});
  engine::StepRunner runner(spec, weights, buffers, cache, prefixes, *backend);
  CollectingSink sink;
  int32_t prelude = 0, coda = 0, loop = 0;
  const auto bind = [&](int32_t group, const std::vector<int32_t>& pages, int32_t& bound) {
    for (const int32_t page : pages) {
      while (bound <= page) {
        cache.acquire(group);
        ++bound;
      }
    }
  };
  for (const std::string& line : log) {
    const engine::StepPlan plan = engine::parse_plan(line).value();
    bind(engine::kPreludeGroup, plan.prelude_pages, prelude);
    bind(engine::kCodaGroup, plan.coda_pages, coda);
    bind(engine::kFirstLoopGroup, plan.loop_pages, loop);
    sink.plan = &plan;
    runner.begin();
    runner.run(plan, sink);
    runner.finish();
  }
  return sink.rows;
}

TEST(Replay, PrintedPlansRerunToTheSameBits) {
  const RandomModel model = write_random_model({.injection = "linear"});
  const ModelOptions options = device_options({.max_seq_len = 128,
                                               .prefill_budget = 13,
                                               .max_sequences = 8,
                                               .hold_passes = 1,
                                               .cpu_threads = 2});
  EngineDriver driver(model.path(), options);
  std::vector<std::string> log;
  driver.engine().set_plan_observer(
      [&](const engine::StepPlan& plan) { log.push_back(engine::print_plan(plan)); });

  std::mt19937 random(5);
  std::vector<std::unique_ptr<RecordingClient>> clients;
  std::vector<engine::SequenceId> ids;
  for (int i = 0; i < 12 || driver.engine().active() > 0;) {
    if (i < 12 && driver.engine().has_room(0) && random() % 2 == 0) {
      GenerateRequest request;
      for (uint32_t t = 0, n = 1 + random() % 60; t < n; ++t) {
        request.tokens.push_back(int32_t(random() % 300));
      }
      request.config.max_tokens = 1 + int32_t(random() % 9);
      request.config.loops = 1 + int32_t(random() % 6);
      request.config.eos = EosMode::ignore;
      if (i % 3 == 0) request.config.cache_window = 20;
      clients.push_back(std::make_unique<RecordingClient>(true));
      ids.push_back(driver.admit(driver.check(request), *clients.back()));
      ++i;
    }
    driver.engine().step();
  }
  const Logits rerun = replay(model.path(), options, log);
  size_t compared = 0;
  for (size_t c = 0; c < clients.size(); ++c) {
    for (size_t k = 0; k < clients[c]->logits.size(); ++k) {
      const Key key{ids[c], clients[c]->logit_positions[k]};
      const auto found = std::find_if(rerun.begin(), rerun.end(),
                                      [&](const auto& row) { return row.first == key; });
      ASSERT_NE(found, rerun.end());
      EXPECT_EQ(found->second, clients[c]->logits[k]);
      ++compared;
    }
  }
  EXPECT_EQ(compared, rerun.size());
  EXPECT_GT(compared, 20u);
}

}  // namespace
}  // namespace tinyloop::testing
