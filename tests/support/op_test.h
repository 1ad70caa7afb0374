// What every op test is built on: a backend per device and SIMD target, and the two comparisons
// (within tolerance of a float64 reference; equal to the bit).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/op_matrix.h"
#include "tests/support/op_reference.h"
#include "tests/support/op_tolerance.h"
#include "tests/support/op_weights.h"

namespace tinyloop::testing {

// One device that the op tests run on. `make` may be called several times.
struct OpDevice {
  std::string name;
  std::function<std::unique_ptr<kernels::Backend>(int32_t threads)> make;
  std::function<void()> leave = [] {};  // undoes what make changed in the process
  OpTolerance tolerance = kF32Tolerance;
  bool is_cuda = false;
};

// The CPU backend, once for each SIMD target that this machine can run.
std::vector<OpDevice> cpu_devices();
// The first CUDA device, "cuda", in a build that has the CUDA parts. Its tests are skipped where no
// device is found.
std::vector<OpDevice> cuda_devices();
std::vector<OpDevice> op_devices();  // all of these
inline std::string op_device_name(const ::testing::TestParamInfo<OpDevice>& info) {
  return info.param.name;
}

// Printed by googletest in place of the object's bytes.
inline void PrintTo(const OpDevice& device, std::ostream* out) {
  *out << device.name;
}

// Test bodies use `backend()` alone, so that they run on any device.
class OpTest : public ::testing::TestWithParam<OpDevice> {
 protected:
  void SetUp() override;
  void TearDown() override;

  kernels::Backend& backend() { return *backend_; }
  std::unique_ptr<kernels::Backend> backend_with(int32_t threads) {
    return GetParam().make(threads);
  }
  const OpTolerance& tolerance() const { return GetParam().tolerance; }
  bool is_cuda() const { return GetParam().is_cuda; }
  OpRandom& random() { return random_; }

  static constexpr uint64_t kSeed = 20250611;

 private:
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(kSeed)};
  OpRandom random_{kSeed};
  std::unique_ptr<kernels::Backend> backend_;
};

// |got − want.value| <= tolerance · want.magnitude everywhere (NaN fails).
::testing::AssertionResult near(const std::vector<float>& got, const Expected& want,
                                double tolerance);
::testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b);

// The `cols` values of row `row`.
std::vector<float> row_of(const std::vector<float>& values, int32_t row, int32_t cols);

#define TINYLOOP_ON_DEVICES(Suite, devices)                              \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, ::testing::ValuesIn(devices), \
                           ::tinyloop::testing::op_device_name);         \
  /* No device of the kind in this build. */                             \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Suite)

#define TINYLOOP_ON_EVERY_DEVICE(Suite) \
  TINYLOOP_ON_DEVICES(Suite, ::tinyloop::testing::op_devices())
#define TINYLOOP_ON_THE_CPU(Suite) TINYLOOP_ON_DEVICES(Suite, ::tinyloop::testing::cpu_devices())
#define TINYLOOP_ON_CUDA(Suite) TINYLOOP_ON_DEVICES(Suite, ::tinyloop::testing::cuda_devices())

}  // namespace tinyloop::testing
