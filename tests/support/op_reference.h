// The ops in float64, written from their equations alone. All matrices are dense, row-major.
#pragma once

#include <cstdint>
#include <vector>

namespace tinyloop::testing {

// Results, and for each the size of what was added up to it (see op_tolerance.h).
struct Expected {
  std::vector<double> value;
  std::vector<double> magnitude;

  void add(double result, double size) {
    value.push_back(result);
    magnitude.push_back(size);
  }
};

using Values = std::vector<float>;

// x[rows, in] · W[out, in]ᵀ
Expected reference_linear(const Values& weights, const Values& x, int32_t rows, int32_t out,
                          int32_t in);
// c · tanh(z / c) of a linear result.
Expected reference_softcap(const Expected& z, double cap);
// x: vectors of `cols`; weight [cols].
Expected reference_rms_norm(const Values& x, const Values& weight, int32_t cols, double eps);
// x [rows, heads · head_dim], turned by positions[row] · base^(−2i / head_dim).
Expected reference_rope(const Values& x, const std::vector<int32_t>& positions, int32_t heads,
                        int32_t head_dim, double base);
Expected reference_swiglu(const Values& gate, const Values& up);
Expected reference_relu2(const Values& up);

// One query head against `keys` and `values` [positions, head_dim] of one K/V head; attends to the
// last `window` positions (0: all) and appends head_dim results.
void reference_attention(const float* q, const Values& keys, const Values& values,
                         int32_t positions, int32_t head_dim, int32_t window, Expected& out);

}  // namespace tinyloop::testing
