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
};

inline constexpr OpTolerance kF32Tolerance{};

}  // namespace tinyloop::testing
