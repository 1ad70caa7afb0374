#include "tests/support/op_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tinyloop::testing {

Expected reference_linear(const Values& weights, const Values& x, int32_t rows, int32_t out,
                          int32_t in) {
  Expected expected;
  for (int32_t r = 0; r < rows; ++r) {
    for (int32_t o = 0; o < out; ++o) {
      double sum = 0.0, size = 0.0;
      for (int32_t k = 0; k < in; ++k) {
        const double product = double(weights[size_t(o) * size_t(in) + size_t(k)]) *
                               double(x[size_t(r) * size_t(in) + size_t(k)]);
        sum += product;
        size += std::abs(product);
      }
      expected.add(sum, size);
    }
  }
  return expected;
}

Expected reference_softcap(const Expected& z, double cap) {
  Expected expected;
  for (size_t i = 0; i < z.value.size(); ++i) {
    expected.add(cap * std::tanh(z.value[i] / cap), z.magnitude[i]);
  }
  return expected;
}

Expected reference_rms_norm(const Values& x, const Values& weight, int32_t cols, double eps) {
  Expected expected;
  for (size_t first = 0; first < x.size(); first += size_t(cols)) {
    double squares = 0.0;
    for (size_t c = 0; c < size_t(cols); ++c)
      squares += double(x[first + c]) * double(x[first + c]);
    const double factor = 1.0 / std::sqrt(squares / cols + eps);
    for (size_t c = 0; c < size_t(cols); ++c) {
      const double y = double(x[first + c]) * factor * double(weight[c]);
      expected.add(y, std::abs(y));
    }
  }
  return expected;
}

Expected reference_rope(const Values& x, const std::vector<int32_t>& positions, int32_t heads,
                        int32_t head_dim, double base) {
  Expected expected;
  size_t at = 0;
  for (int32_t position : positions) {
    for (int32_t i = 0; i < heads * head_dim; i += 2, at += 2) {
      const double angle = position * std::pow(base, -double(i % head_dim) / head_dim);
      const double a = double(x[at]), b = double(x[at + 1]);
      const double size = std::abs(a) + std::abs(b);
      expected.add(a * std::cos(angle) - b * std::sin(angle), size);
      expected.add(a * std::sin(angle) + b * std::cos(angle), size);
    }
  }
  return expected;
}

Expected reference_swiglu(const Values& gate, const Values& up) {
  Expected expected;
  for (size_t i = 0; i < gate.size(); ++i) {
    const double z = double(gate[i]);
    const double y = z / (1.0 + std::exp(-z)) * double(up[i]);
    // Far below 0 silu vanishes; an absolute error of 1e-35 is no error there.
    expected.add(y, std::abs(y) + 1e-29 * std::abs(double(up[i])));
  }
  return expected;
}

Expected reference_relu2(const Values& up) {
  Expected expected;
  for (float u : up) {
    const double positive = std::max(double(u), 0.0);
    expected.add(positive * positive, positive * positive);
  }
  return expected;
}

void reference_attention(const float* q, const Values& keys, const Values& values,
                         int32_t positions, int32_t head_dim, int32_t window, Expected& out) {
  const auto dim = size_t(head_dim);
  const auto begin = size_t(window > 0 ? std::max(0, positions - window) : 0);
  std::vector<double> weights;
  double largest = -1e300, total = 0.0;
  for (size_t p = begin; p < size_t(positions); ++p) {
    double dot = 0.0;
    for (size_t d = 0; d < dim; ++d) dot += double(q[d]) * double(keys[p * dim + d]);
    weights.push_back(dot / std::sqrt(double(head_dim)));
    largest = std::max(largest, weights.back());
  }
  for (double& weight : weights) total += weight = std::exp(weight - largest);
  for (size_t d = 0; d < dim; ++d) {
    double sum = 0.0, size = 0.0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const double product = weights[i] / total * double(values[(begin + i) * dim + d]);
      sum += product;
      size += std::abs(product);
    }
    out.add(sum, size);
  }
}

}  // namespace tinyloop::testing
