// How far a backend's results may lie from the float64 reference: the one table for all op tests.
// An error is measured against the magnitude that the reference states for each output (the sum of
// the absolute values of what was added up), so that cancellation does not count as inaccuracy.
#pragma once

namespace tinyloop::testing {

struct OpTolerance {
  double exact = 0.0;         // copies, decoded weights
  double elementwise = 2e-7;  // a few roundings: residual_add, scale_add, rope, embed
  double rms_norm = 2e-6;
  double activation = 1e-6;  // one exponential
  double dot = 2e-6;         // linear, logits without a cap
  double softcap = 5e-6;     // the error of dot, through tanh
  double attention = 1e-5;   // scores, exponentials and the weighted sum
  double initial_state = 0.0;
};

inline constexpr OpTolerance kF32Tolerance{};

// Products of FP16 numbers with FP32 sums. The reference is given the operands as rounded to FP16
// (tests/support/op_weights.h), so that their rounding, 2^-11 of a number and about 1e-3 of a dot
// product's magnitude, hides nothing.
//   dot: tensor cores cut the addends of a step at about 2^-24 of the largest, where the CPU rounds
//     to the nearest: the errors have one sign. 17 addends a step, and running sums that stay small
//     beside the magnitude, make less than this for up to 65,568 columns.
//   attention: a weight is rounded to FP16 before it meets its value, by 2^-11 = 4.9e-4 of itself;
//     scores and exp2 add less than 1e-4.
//   initial_state: logarithm, sine and cosine are the device's own, in FP64: a result may be
//   rounded
//     to the other neighbour.
inline constexpr OpTolerance kCudaTolerance{
    .dot = 1e-5, .softcap = 1.5e-5, .attention = 6e-4, .initial_state = 1.2e-7};

}  // namespace tinyloop::testing
