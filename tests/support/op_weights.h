// Random weight matrices of the op tests, laid out as the backend wants them.
#pragma once

#include <vector>

#include "kernels/backend.h"
#include "tests/support/op_matrix.h"

namespace tinyloop::testing {

// What products on the backend read of numbers: their FP16 form on a device that multiplies in
// FP16, cut to its range, else the numbers. A reference that is given these measures the sums
// alone.
std::vector<float> operands(const kernels::Backend& backend, std::vector<float> values);

// On the CPU in the layout `rows` (tests/kernels/linear_int8_test.cc has panels).
class OpWeights {
 public:
  OpWeights(kernels::Backend& backend, kernels::WeightType type, int32_t out, int32_t in,
            OpRandom& random);

  const kernels::WeightMatrix& matrix() const { return matrix_; }
  // The same in host memory, as in a file.
  kernels::WeightMatrix in_file() const;
  // [out][in] as the format and the layout define them.
  const std::vector<float>& values() const { return values_; }
  // [out][in] as products read them.
  const std::vector<float>& operands() const { return operands_; }

 private:
  std::vector<std::byte> file_;
  kernels::WeightMatrix matrix_;
  std::vector<float> values_, operands_;
  DeviceArray<std::byte> device_;
};

}  // namespace tinyloop::testing
