// Whole models in mode fast on a CUDA device, beside mode f16: what it changes, and what it must
// not.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "engine/batch_engine.h"
#include "tests/support/engine_driver.h"
#include "tests/support/random_model.h"
#include "tests/support/test_device.h"

namespace tinyloop::testing {
namespace {

constexpr size_t kAll = std::numeric_limits<size_t>::max();

class FastMode : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!on_cuda()) GTEST_SKIP() << "for a CUDA device";
    if (const std::string missing = missing_cublas(); !missing.empty()) GTEST_SKIP() << missing;
  }

  static ModelOptions options(ArithmeticMode mode, std::optional<size_t> cache = {}) {
    ModelOptions options = device_options({.max_seq_len = 1024, .prefill_budget = 512});
    options.mode = mode;
    options.fp16_cache_bytes = cache;
    return options;
  }
  static RecordingClient score(EngineDriver& driver, int32_t length) {
    ScoreRequest request;
    for (int32_t i = 0; i < length; ++i) request.tokens.push_back(1 + (i * 37 + i * i * 11) % 299);
    request.loops = 3;
    RecordingClient client(true);
    driver.admit(driver.check(request), client);
    driver.run();
    EXPECT_FALSE(client.error) << client.error->detail;
    return client;
  }
  // The root-mean-square difference of all logits as a share of their root mean square.
  static double difference(const RecordingClient& a, const RecordingClient& b) {
    double sum = 0, size = 0;
    EXPECT_EQ(a.logits.size(), b.logits.size());
    for (size_t p = 0; p < a.logits.size(); ++p) {
      for (size_t v = 0; v < a.logits[p].size(); ++v) {
        const double d = double(a.logits[p][v]) - double(b.logits[p][v]);
        sum += d * d;
        size += double(b.logits[p][v]) * double(b.logits[p][v]);
      }
    }
    return std::sqrt(sum / size);
  }

  // Made when a test runs that is not skipped.
  static std::string path() {
    static const RandomModel model = write_random_model(tiled_shape());
    return model.path();
  }
};

TEST_F(FastMode, LongPromptsAgreeWithModeF16) {
  EngineDriver f16(path(), options(ArithmeticMode::f16));
  const RecordingClient want = score(f16, 500);
  for (const auto cache : {std::optional<size_t>(), std::optional(kAll),
                           std::optional(size_t{4} << 20), std::optional(size_t{0})}) {
    SCOPED_TRACE(cache ? std::to_string(*cache) : "unset");
    EngineDriver fast(path(), options(ArithmeticMode::fast, cache));
    const RecordingClient got = score(fast, 500);
    // Operands are the same, and FP16 roundings behind sums of another order.
    EXPECT_LE(difference(got, want), 3e-3);
    EXPECT_EQ(got.logits_hash == want.logits_hash, cache == size_t{0});
    EXPECT_EQ(fast.memory().fp16_weight_cache == 0, cache == size_t{0});
  }
}

// Passes of few rows are those of mode f16.
TEST_F(FastMode, ShortPromptsHaveTheBitsOfModeF16) {
  EngineDriver f16(path(), options(ArithmeticMode::f16));
  EngineDriver fast(path(), options(ArithmeticMode::fast, kAll));
  for (int32_t length : {2, 17, 129}) {  // the last token is no row
    EXPECT_EQ(score(fast, length).logits_hash, score(f16, length).logits_hash) << length;
  }
}

TEST_F(FastMode, TheReportAddsUpAndAWarmModelAllocatesNothing) {
  EngineDriver driver(path(), options(ArithmeticMode::fast));
  score(driver, 500);
  const MemoryReport report = driver.memory();
  EXPECT_EQ(report.total(), driver.backend().memory().used_total());
  EXPECT_EQ(report.fp16_weight_cache,
            driver.backend().memory().used(kernels::MemoryUse::fp16_weight_cache));
  EXPECT_GT(report.fp16_weight_cache, size_t{2} * 2 * 576 * 3 * 1536);  // two layers' FFNs
  const uint64_t before = driver.backend().memory().allocation_count();
  score(driver, 500);
  score(driver, 300);
  EXPECT_EQ(driver.backend().memory().allocation_count(), before);
}

// Whichever allocation of a load fails: it says so, and all is given back.
TEST_F(FastMode, LoadsThatFindNoMemoryLeaveNothing) {
  const ModelOptions wanted = options(ArithmeticMode::fast);
  const auto backend = std::move(kernels::make_backend(wanted).value());
  kernels::DeviceMemory& memory = backend->memory();
  engine::MemoryLedger ledger;
  const base::LogSink log = [](LogLevel, std::string_view) {};
  const size_t before = memory.used_total();
  int failures = 0, of_copies = 0;
  for (bool loaded = false; !loaded;) {
    memory.fail_allocation(uint64_t(failures) + 1);
    auto result = engine::BatchEngine::load(path(), wanted, *backend, ledger, log);
    memory.fail_allocation(0);
    loaded = result.has_value();
    if (loaded) {
      EXPECT_EQ(ledger.report(memory).total(), memory.used_total());
      EXPECT_GT(memory.used(kernels::MemoryUse::fp16_weight_cache), 0u);
      result.value().reset();
    } else {
      ++failures;
      EXPECT_EQ(result.error().code, errc::out_of_memory) << result.error().detail;
      of_copies += result.error().detail.starts_with("FP16 weight cache: ");
    }
    ASSERT_EQ(memory.used_total(), before) << "after " << failures;
  }
  EXPECT_EQ(of_copies, 1 + 2 * 4);  // the injection's; of two layers four groups each
}

}  // namespace
}  // namespace tinyloop::testing
