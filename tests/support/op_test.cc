#include "tests/support/op_test.h"

#include <hwy/targets.h>

#include <bit>
#include <cmath>

#include "tests/support/test_device.h"

namespace tinyloop::testing {

namespace {

std::unique_ptr<kernels::Backend> make_cpu(int32_t threads) {
  const ModelOptions options{.device = "cpu", .cpu_threads = threads};
  return std::move(kernels::make_backend(options).value());
}

[[maybe_unused]] std::unique_ptr<kernels::Backend> make_cuda(int32_t) {
  return std::move(kernels::make_backend({.device = "cuda:0"}).value());
}

#if HWY_ARCH_X86
// kernels/cpu/targets.h: a sanitizer build has AVX2 and the scalar code alone.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
[[maybe_unused]] constexpr int64_t kCompiledTargets = HWY_AVX2 | HWY_SCALAR;
#else
[[maybe_unused]] constexpr int64_t kCompiledTargets = -1;
#endif

// Highway reads the choice again at the next op; the process has one choice at a time.
void choose_target(int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().DeInit();
}

// Ops that have no code of their own for AVX3_DL run that of AVX3.
OpDevice cpu_with_target(int64_t target) {
  const int64_t mask = target == HWY_AVX3_DL ? HWY_AVX3_DL | HWY_AVX3 : target;
  return {.name = std::string("cpu_") + hwy::TargetName(target),
          .make =
              [mask](int32_t threads) {
                choose_target(mask);
                return make_cpu(threads);
              },
          .leave = [] { choose_target(0); }};
}
#endif

}  // namespace

std::vector<OpDevice> cpu_devices() {
  std::vector<OpDevice> devices;
#if HWY_ARCH_X86
  for (int64_t target : {HWY_AVX3_DL, HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_SCALAR}) {
    if (hwy::SupportedTargets() & kCompiledTargets & target)
      devices.push_back(cpu_with_target(target));
  }
#else
  devices.push_back({.name = "cpu", .make = make_cpu});
#endif
  return devices;
}

std::vector<OpDevice> cuda_devices() {
#ifdef TINYLOOP_WITH_CUDA
  return {{.name = "cuda", .make = make_cuda, .tolerance = kCudaTolerance, .is_cuda = true}};
#else
  return {};
#endif
}

std::vector<OpDevice> op_devices() {
  std::vector<OpDevice> devices = cpu_devices();
  for (OpDevice& device : cuda_devices()) devices.push_back(std::move(device));
  return devices;
}

void OpTest::SetUp() {
  if (is_cuda()) {
    const std::string missing = missing_cuda_device();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
  backend_ = backend_with(2);
}

void OpTest::TearDown() {
  backend_.reset();
  GetParam().leave();
}

::testing::AssertionResult near(const std::vector<float>& got, const Expected& want,
                                double tolerance) {
  if (got.size() != want.value.size()) {
    return ::testing::AssertionFailure() << got.size() << " values for " << want.value.size();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(double(got[i]) - want.value[i]);
    if (!(error <= tolerance * want.magnitude[i])) {
      return ::testing::AssertionFailure()
             << "value " << i << " of " << got.size() << " is " << got[i] << ", want "
             << want.value[i] << ": error " << error << " above " << tolerance << " x "
             << want.magnitude[i];
    }
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " values against " << b.size();
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return ::testing::AssertionFailure() << "value " << i << " of " << a.size() << ": "
                                           << std::hexfloat << a[i] << " against " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

std::vector<float> row_of(const std::vector<float>& values, int32_t row, int32_t cols) {
  const auto first = values.begin() + ptrdiff_t(row) * cols;
  return {first, first + cols};
}

}  // namespace tinyloop::testing
