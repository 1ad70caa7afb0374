// What the driver says about the device's memory, beside what a model says it holds. The device
// must be used by nobody else meanwhile.
#ifdef TINYLOOP_WITH_CUDA

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class CudaMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!on_cuda()) GTEST_SKIP() << "for a CUDA device";
  }

  // Of the device that the tests run on, when everything started there has ended.
  static size_t free_bytes() {
    EXPECT_EQ(cudaSetDevice(std::stoi(test_device().substr(test_device().find(':') + 1))),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return free;
  }
};

// The driver gives memory out in blocks of 2 MiB, and a CUDA context grows when a kernel is loaded:
// the first rounds do that. A round that left a single block behind would cost 2 GB over 1,000.
TEST_F(CudaMemoryTest, AThousandModelsLeaveNothingBehind) {
  constexpr int kWarmUp = 20, kRounds = 1000;
  constexpr size_t kTolerance = 32 * kMiB;
  const auto round = [] { ServedModel().generate(request(4)); };
  for (int i = 0; i < kWarmUp; ++i) round();
  const size_t before = free_bytes();
  for (int i = 0; i < kRounds; ++i) round();
  const size_t after = free_bytes();
  EXPECT_LE(before, after + kTolerance) << (before - after) / kMiB << " MiB are missing";
}

// The rest is the driver's: blocks rounded up to 2 MiB and a pool that grows by 32 MiB at a time,
// and some MiB of graphs, which belong to the context.
TEST_F(CudaMemoryTest, AModelHoldsWhatItReports) {
  constexpr size_t kTolerance = 96 * kMiB;
  ModelOptions options = small_options();
  options.max_seq_len = 1 << 19;  // buffers of several times the tolerance
  ServedModel(options).generate(request(4));
  const size_t before = free_bytes();
  const ServedModel served(options);
  served.generate(request(4));
  const size_t held = before - free_bytes();
  const size_t reported = served.model.memory().total();
  EXPECT_GT(reported, 4 * kTolerance);
  EXPECT_GE(held, reported);
  EXPECT_LE(held, reported + kTolerance);
}

}  // namespace
}  // namespace tinyloop::testing

#endif
