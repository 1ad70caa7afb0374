// The same request gives the same bits on a CUDA device whatever else runs: alone, in batches of up
// to 64 with random arrival, its prompt in one piece or in slices.
//
// TINYLOOP_TEST_MODEL=path runs the same comparison on another model file (docs/testing.md).
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "tests/support/random_model.h"
#include "tests/support/test_device.h"
#include "tests/support/workload.h"

namespace tinyloop::testing {
namespace {

constexpr int kRequests = 100;
constexpr int32_t kLongest = 1500;
constexpr int32_t kWholePrompts = 4096;  // rows a pass: every prompt in one piece

ModelOptions options(int32_t prefill_budget) {
  return device_options({.max_seq_len = 1600, .prefill_budget = prefill_budget});
}

class DeviceIdentity : public ::testing::Test {
 protected:
  // The model and the requests, and what each gives alone.
  struct Scene {
    Scene() {
      EngineDriver driver(path, options(kWholePrompts));
      work = std::make_unique<Workload>(kSeed, kRequests, kLongest, driver.engine().limits().vocab);
      alone = run_alone(driver, *work);
    }

    RandomModel random_model = write_random_model(tiled_shape());
    const char* given_model = std::getenv("TINYLOOP_TEST_MODEL");
    const std::string path = given_model ? given_model : random_model.path();
    std::unique_ptr<Workload> work;
    std::vector<Outcome> alone;
  };

  void SetUp() override {
    if (!on_cuda()) GTEST_SKIP() << "the CPU has tests/engine/identity_test.cc";
  }
  static const Scene& scene() {
    static const Scene scene;
    return scene;
  }

  // Batches of that size under that budget give what the requests give alone.
  static void expect_alone(int32_t prefill_budget, size_t batch) {
    SCOPED_TRACE(::testing::Message() << "prefill_budget " << prefill_budget << ", batch " << batch
                                      << ", seed " << kSeed);
    EngineDriver driver(scene().path, options(prefill_budget));
    const auto batched = run_batched(driver, *scene().work, batch, kSeed + uint32_t(batch));
    for (size_t i = 0; i < batched.size(); ++i) {
      EXPECT_EQ(batched[i], scene().alone[i])
          << "request " << i << ": " << scene().work->requests[i].tokens.size() << " tokens, loops "
          << *scene().work->requests[i].config.loops;
    }
    EXPECT_EQ(driver.memory().pages_used, 0u);
  }

  static constexpr uint32_t kSeed = 4242;
};

TEST_F(DeviceIdentity, AgainInTheSameOrder) {
  EngineDriver driver(scene().path, options(kWholePrompts));
  EXPECT_EQ(run_alone(driver, *scene().work), scene().alone);
}

TEST_F(DeviceIdentity, InBatchesOfEverySize) {
  for (size_t batch : {2, 3, 9, 17, 33, 64}) expect_alone(256, batch);
}

TEST_F(DeviceIdentity, UnderEveryPrefillBudget) {
  for (int32_t budget : {1, 64, 512, kWholePrompts}) {
    expect_alone(budget, 1);
    expect_alone(budget, 64);
  }
}

TEST_F(DeviceIdentity, PicksAreTheTokensOfTheLogits) {
  EngineDriver driver(scene().path, options(256));
  const auto picked =
      run_batched(driver, *scene().work, 32, kSeed, RecordingClient::Logits::unasked);
  for (size_t i = 0; i < picked.size(); ++i) {
    EXPECT_EQ(picked[i].tokens, scene().alone[i].tokens) << "request " << i;
  }
}

}  // namespace
}  // namespace tinyloop::testing
