// What the tests of the fast mode share: its backend, and matrices with copies.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/fp16_copy.h"
#include "tests/support/op_test.h"
#include "tests/support/test_device.h"

namespace tinyloop::testing {

// A matrix with its copy, and without.
class FastWeights {
 public:
  FastWeights(kernels::Backend& backend, kernels::WeightType type, int32_t out, int32_t in,
              OpRandom& random)
      : weights_(backend, type, out, in, random),
        copy_(backend.memory(), kernels::fp16_copy_bytes(out, in),
              kernels::MemoryUse::fp16_weight_cache) {
    backend.fp16_copy({weights_.matrix(), copy_.data()});
  }

  const kernels::WeightMatrix& tiled() const { return weights_.matrix(); }
  kernels::WeightMatrix copied() const {
    kernels::WeightMatrix matrix = weights_.matrix();
    matrix.fp16 = copy_.data();
    return matrix;
  }
  const std::vector<float>& operands() const { return weights_.operands(); }
  std::vector<uint16_t> copy(kernels::Backend& backend) const {
    std::vector<uint16_t> numbers(copy_.bytes() / 2);
    backend.memory().copy_out(numbers.data(), copy_.data(), copy_.bytes());
    return numbers;
  }

 private:
  OpWeights weights_;
  kernels::DeviceBuffer copy_;
};

// Skipped where there is no device, or no cuBLAS.
class CudaFastOpTest : public OpTest {
 protected:
  void SetUp() override {
    const std::string missing = missing_cublas();
    if (missing_cuda_device().empty() && !missing.empty()) GTEST_SKIP() << missing;
    OpTest::SetUp();
  }

  std::vector<float> exact_rows(int32_t rows, int32_t cols) {
    return operands(backend(), random().values(size_t(rows) * size_t(cols)));
  }
  OpMatrix matrix(int32_t rows, int32_t cols, RowLayout layout, kernels::ScalarType type,
                  const std::vector<float>& values = {}) {
    return {backend(), rows, cols, layout, random(), values, type};
  }
};

// The CUDA device in mode fast.
inline std::vector<OpDevice> fast_devices() {
  std::vector<OpDevice> devices = cuda_devices();
  for (OpDevice& device : devices) {
    device.make = [](int32_t) {
      return std::move(
          kernels::make_backend({.device = "cuda:0", .mode = ArithmeticMode::fast}).value());
    };
  }
  return devices;
}

#define TINYLOOP_IN_FAST_MODE(Suite) TINYLOOP_ON_DEVICES(Suite, ::tinyloop::testing::fast_devices())

}  // namespace tinyloop::testing
