#include "tests/support/test_device.h"

#include <cstdlib>
#include <string_view>

#include "kernels/backend.h"
#ifdef TINYLOOP_WITH_CUDA
#include "kernels/cuda/cublas_library.h"
#include "kernels/cuda/devices.h"
#endif

namespace tinyloop::testing {

std::string missing_cuda_device() {
#ifdef TINYLOOP_WITH_CUDA
  if (kernels::cuda_device_count() > 0) return {};
#endif
  return "no CUDA device: " + kernels::cuda_status();
}

int cuda_device_count() {
#ifdef TINYLOOP_WITH_CUDA
  return kernels::cuda_device_count();
#else
  return 0;
#endif
}

std::string missing_cublas() {
#ifdef TINYLOOP_WITH_CUDA
  try {
    const kernels::CublasLibrary library;
  } catch (const base::Failure& failure) {
    return "no cuBLAS: " + failure.error().detail;
  }
#endif
  return {};
}

std::string test_device() {
  const char* given = std::getenv("TINYLOOP_TEST_DEVICE");
  return given && *given ? given : "cpu";
}

bool on_cuda() {
  return test_device().starts_with("cuda");
}

ModelOptions device_options(ModelOptions options) {
  options.device = test_device();
  if (on_cuda()) options.mode = in_fast_mode() ? ArithmeticMode::fast : ArithmeticMode::automatic;
  return options;
}

bool in_fast_mode() {
  const char* given = std::getenv("TINYLOOP_TEST_MODE");
  return on_cuda() && given && std::string_view(given) == "fast";
}

void TestDeviceEnvironment::SetUp() {
  if (!on_cuda()) return;
  if (const std::string missing = missing_cuda_device(); !missing.empty()) GTEST_SKIP() << missing;
  if (!in_fast_mode()) return;
  if (const std::string missing = missing_cublas(); !missing.empty()) GTEST_SKIP() << missing;
}

}  // namespace tinyloop::testing
