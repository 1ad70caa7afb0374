// Reservations, loans and shared pages under a random load with a budget that is too small for it:
// no promise is broken, whatever fails or ends in between, and every byte comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/engine_driver.h"
#include "tests/support/random_model.h"
#include "tests/support/test_device.h"

namespace tinyloop::testing {
namespace {

constexpr int32_t kMaxSeqLen = 128;
constexpr int32_t kDeepest = 6;

ModelOptions options_of(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<int32_t> values) {
    return *(values.begin() + random() % values.size());
  };
  ModelOptions options = device_options({.max_seq_len = kMaxSeqLen, .cpu_threads = 1});
  options.prefill_chunk = one_of({0, 1, 7, 16, 17, 40});
  options.prefill_budget = one_of({1, 5, 16, 19, 256});
  options.reserve_tokens = one_of({1, 7, 20, 256});
  options.max_sequences = one_of({2, 5, 9});
  options.hold_passes = one_of({0, 0, 3});
  options.max_handles = one_of({3, 1024});
  options.cache_budget_bytes = size_t(one_of({30, 80, 200, 400})) << 10;
  return options;
}

// What the engine keeps for a handle.
struct Kept {
  engine::PrefixId id;
  std::vector<int32_t> tokens;
};

class RandomLoad {
 public:
  RandomLoad(const std::string& path, uint32_t seed, bool with_faults)
      : random_(seed),
        with_faults_(with_faults),
        driver_(path, options_of(random_)),
        reference_(path, device_options({.max_seq_len = kMaxSeqLen, .cpu_threads = 1})) {}

  void run(int operations) {
    for (int i = 0; i < operations && !::testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE("operation " + std::to_string(i));
      act();
      check_report();
    }
    driver_.backend().memory().fail_allocation(0);
    driver_.run();
    for (int which = 0; !clients_.empty(); ++which) collect();
    while (!kept_.empty()) drop(0);
    const MemoryReport report = driver_.memory();
    EXPECT_EQ(report.pages_used, 0u);
    EXPECT_EQ(report.cache_reserved, 0u);
    EXPECT_EQ(report.handles, 0u);
  }

  int generated() const { return generated_; }
  int refused() const { return refused_; }
  int preemptions() const { return preemptions_; }

 private:
  // A request under way.
  struct Started {
    RecordingClient client{RecordingClient::Logits::unasked};
    engine::SequenceId id = 0;
    std::vector<int32_t> tokens;              // of what it keeps
    std::optional<GenerateRequest> the_same;  // without a handle
  };

  int32_t between(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }
  // Around the borders of pages.
  int32_t length() { return std::clamp(16 * between(0, 4) + between(-2, 2), 1, kMaxSeqLen); }
  std::vector<int32_t> tokens(int32_t count) {
    std::vector<int32_t> result;
    for (int32_t i = 0; i < count; ++i) result.push_back(between(0, 299));
    return result;
  }
  int32_t window() {
    const int32_t windows[] = {0, 0, 1, 2, 15, 16, 17, 31, 33, 50};
    return windows[between(0, 9)];
  }

  void act() {
    switch (between(0, 11)) {
      case 0:
        return build_cache();
      case 1:
        return build_resume();
      case 2:
        return generate_plain();
      case 3:
      case 4:
      case 5:
        return generate_from_handle();
      case 6:
        return deepen();
      case 7:
        if (!kept_.empty() && between(0, 1)) drop(size_t(between(0, int32_t(kept_.size()) - 1)));
        return;
      case 8:
        if (!clients_.empty() && between(0, 2) == 0) {
          const auto& any = clients_[size_t(between(0, int32_t(clients_.size()) - 1))];
          driver_.engine().finish(any->id, FinishReason::cancelled);
        }
        return;
      case 9:
        driver_.engine().trim();
        if (with_faults_) driver_.backend().memory().fail_allocation(uint64_t(between(1, 6)));
        return;
      default:
        for (int32_t steps = between(1, 30); steps > 0; --steps) {
          preemptions_ += driver_.engine().step().preemptions;
        }
        return collect();
    }
  }

  PrefixRequest prefix_request() {
    return {.tokens = tokens(length()), .loops = between(1, 4), .cache_window = window()};
  }

  void build_cache() {
    const PrefixRequest request = prefix_request();
    start(driver_.check(request), request.tokens, std::nullopt);
  }

  void build_resume() {
    const PrefixRequest request = prefix_request();
    start(driver_.check(ResumeRequest{request, between(*request.loops, kDeepest)}), request.tokens,
          std::nullopt);
  }

  GenerateRequest generate_request(int32_t prompt) {
    GenerateRequest request{.tokens = tokens(prompt)};
    request.config.max_tokens = between(0, 2) == 0 ? 1 : between(1, 40);
    request.config.eos = EosMode::ignore;
    return request;
  }

  void generate_plain() {
    GenerateRequest request = generate_request(length());
    request.config.loops = between(1, 4);
    request.config.cache_window = window();
    start(may_keep(driver_.check(request)), request.tokens, request);
  }

  // Some keep their prompt and go on.
  engine::SequenceRequest may_keep(engine::SequenceRequest request) {
    if (!request.resumes() && between(0, 2) == 0) {
      request.keep = engine::KeepRequest{engine::PrefixState::final_row, request.loops};
    }
    return request;
  }

  void generate_from_handle() {
    if (kept_.empty()) return;
    const Kept& kept = kept_[size_t(between(0, int32_t(kept_.size()) - 1))];
    const engine::PrefixShape shape = driver_.engine().find_prefix(kept.id)->shape();
    GenerateRequest request = generate_request(between(0, 1) * between(0, 40));
    request.config.max_tokens =
        std::min(request.config.max_tokens,
                 kMaxSeqLen - int32_t(kept.tokens.size() + request.tokens.size()));
    if (request.config.max_tokens < 1) return;
    GenerateRequest same = request;
    same.tokens = kept.tokens;
    same.tokens.insert(same.tokens.end(), request.tokens.begin(), request.tokens.end());
    same.config.cache_window = shape.window;
    same.config.loops = shape.loops;
    bool compares = true;
    if (shape.resumes()) {
      const int32_t deeper = between(shape.loops, shape.max_loops);
      request.resume_loops = deeper;
      if (between(0, 1)) request.config.loops = between(1, deeper);
      compares = request.config.loops.value_or(deeper) == deeper;
      same.config.loops = deeper;
    }
    start(may_keep(driver_.check(request, kept.id, kept.tokens)), same.tokens,
          compares ? std::optional(same) : std::nullopt);
  }

  void deepen() {
    if (kept_.empty()) return;
    const Kept& kept = kept_[size_t(between(0, int32_t(kept_.size()) - 1))];
    engine::CachedPrefixRef base = driver_.engine().find_prefix(kept.id);
    if (!base->shape().resumes()) return;
    const int32_t loops = between(base->shape().loops, base->shape().max_loops);
    auto request = engine::check_deepen({kept.tokens, base->shape()}, {.loops = loops},
                                        driver_.engine().limits())
                       .value();
    request.base = std::move(base);
    start(std::move(request), kept.tokens, std::nullopt);
  }

  void start(engine::SequenceRequest request, std::vector<int32_t> of,
             std::optional<GenerateRequest> same) {
    if (!driver_.engine().has_room(0) || !driver_.engine().try_reserve(request)) {
      ++refused_;
      return;
    }
    auto started = std::make_unique<Started>();
    started->tokens = std::move(of);
    started->the_same = std::move(same);
    try {
      started->id = driver_.engine().admit(std::move(request), started->client);
    } catch (const base::Failure& failure) {
      const errc code = failure.error().code;
      EXPECT_TRUE(code == errc::overloaded || (with_faults_ && code == errc::out_of_memory))
          << failure.error().detail;
      return;
    }
    clients_.push_back(std::move(started));
  }

  // Takes note of what has ended.
  void collect() {
    std::erase_if(clients_, [this](const std::unique_ptr<Started>& started) {
      RecordingClient& client = started->client;
      if (client.prefix) kept_.push_back({std::exchange(client.prefix, 0), started->tokens});
      if (client.ends == 0) return false;
      EXPECT_EQ(client.ends, 1);
      if (client.error) {
        // Handles may come to hold what a request would need to go on.
        const bool held = client.error->detail.find("reuse handles hold") != std::string::npos;
        EXPECT_TRUE(with_faults_ || held) << client.error->detail;
        EXPECT_EQ(client.error->code, errc::out_of_memory) << client.error->detail;
      }
      if (client.finished == FinishReason::max_tokens && started->the_same) compare(*started);
      return true;
    });
  }

  void compare(const Started& started) {
    ++generated_;
    if (generated_ % 4 != 0) return;
    RecordingClient alone(RecordingClient::Logits::unasked);
    reference_.admit(reference_.check(*started.the_same), alone);
    reference_.run();
    EXPECT_EQ(started.client.tokens, alone.tokens);
  }

  void drop(size_t which) {
    driver_.engine().drop_prefix(kept_[which].id);
    kept_.erase(kept_.begin() + ptrdiff_t(which));
  }

  void check_report() {
    const MemoryReport report = driver_.memory();
    EXPECT_LE(report.cache_reserved, report.cache_budget);
    EXPECT_LE(report.page_bytes_used, report.cache_reserved);
  }

  std::mt19937 random_;
  const bool with_faults_;
  EngineDriver driver_, reference_;
  std::vector<std::unique_ptr<Started>> clients_;
  std::vector<Kept> kept_;
  int generated_ = 0, refused_ = 0, preemptions_ = 0;
};

void run_loads(uint32_t seed, int loads, bool with_faults) {
  const ModelShape shapes[] = {{.injection = "linear", .loop_norm = true},
                               {.prelude = 0, .coda = 0},
                               {.prelude = 2, .coda = 3, .injection = "add"}};
  int generated = 0, refused = 0, preemptions = 0;
  for (int i = 0; i < loads && !::testing::Test::HasFailure(); ++i) {
    const uint32_t own_seed = seed + uint32_t(i);
    SCOPED_TRACE("seed " + std::to_string(own_seed) + ", model " + std::to_string(i % 3));
    RandomLoad load(write_random_model(shapes[i % 3]).path(), own_seed, with_faults);
    load.run(300);
    generated += load.generated();
    refused += load.refused();
    preemptions += load.preemptions();
  }
  // The load must have been one: some is carried out, some finds no room,
  // some makes room.
  EXPECT_GT(generated, loads);
  EXPECT_GT(refused, loads);
  EXPECT_GT(preemptions, loads);
}

TEST(ReuseMemory, ARandomLoadKeepsItsPromisesAndGivesEverythingBack) {
  run_loads(86000, 60, false);
}

TEST(ReuseMemory, TheSameWhileTheDeviceRunsOutOfMemory) {
  run_loads(87000, 60, true);
}

}  // namespace
}  // namespace tinyloop::testing
