// The device that a test program's models run on: that of the environment variable
// TINYLOOP_TEST_DEVICE ("cuda:0"), else the CPU. Never "auto": what a test checks must not depend
// on the machine. Where the variable names a CUDA device and there is none, all tests are skipped.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tinyloop/options.h"

namespace tinyloop::testing {

// Empty where a CUDA device can be used; else why not, beginning with "no CUDA device".
std::string missing_cuda_device();

// Empty where the fast mode finds its library; else why not, beginning with "no cuBLAS".
std::string missing_cublas();

int cuda_device_count();  // 0 in a build without the CUDA parts

std::string test_device();
bool on_cuda();
// On a CUDA device, where the environment variable TINYLOOP_TEST_MODE is "fast".
bool in_fast_mode();

// `options` for test_device(). `mode` is for the CPU: a CUDA device computes in f16, or in fast.
ModelOptions device_options(ModelOptions options = {});

class TestDeviceEnvironment : public ::testing::Environment {
 public:
  void SetUp() override;
};
inline ::testing::Environment* const kTestDeviceEnvironment =
    ::testing::AddGlobalTestEnvironment(new TestDeviceEnvironment);

// For tests of what a CUDA device does not have.
#define TINYLOOP_SKIP_ON_CUDA(reason) \
  if (::tinyloop::testing::on_cuda()) GTEST_SKIP() << (reason)

}  // namespace tinyloop::testing
