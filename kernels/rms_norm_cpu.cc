#include <cmath>

#include "kernels/cpu/targets.h"
#include "kernels/rms_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/quantise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

// 1 / sqrt(mean(x²) + eps), in every lane.
HWY_INLINE Lanes norm_factor(const float* x, int32_t cols, float eps) {
  Lanes squares = splat(0.0f);
  for_lanes(cols, [&](auto read, auto) TINYLOOP_LAMBDA {
    const Lanes xs = read(x);
    squares = multiply_add(xs, xs, squares);
  });
  const double mean = double(sum(squares)) / double(cols);
  return splat(float(1.0 / std::sqrt(mean + double(eps))));
}

HWY_INLINE void norm_vector(const float* x, const float* weight, int32_t cols, float eps,
                            float* y) {
  const Lanes factor = norm_factor(x, cols, eps);
  for_lanes(cols, [&](auto read, auto write) TINYLOOP_LAMBDA {
    write(multiply(multiply(read(x), factor), read(weight)), y);
  });
}

// The same values, rounded to 8 bits.
void norm_row_to_q8(const RmsNormArgs& args, int32_t row) {
  const float* x = args.x.f32_row(row);
  const float* weight = args.weight;
  const Lanes factor = norm_factor(x, args.cols, args.eps);
  quantise_row(
      args.cols,
      [&](int32_t k)
          TINYLOOP_LAMBDA { return multiply(multiply(load(x + k), factor), load(weight + k)); },
      args.y.q8_row(row));
}

// Vectors [first, last) of the rows · groups there are.
void norm_vectors(const RmsNormArgs& args, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    const auto row = int32_t(i / args.groups);
    const auto column = int32_t(i % args.groups) * args.cols;
    norm_vector(args.x.f32_row(row) + column, args.weight, args.cols, args.eps,
                args.y.f32_row(row) + column);
  }
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"
#include "kernels/cpu/cpu_context.h"

namespace tinyloop::kernels {

HWY_EXPORT(norm_vectors);
HWY_EXPORT(norm_row_to_q8);

void rms_norm_cpu(CpuContext& cpu, const RmsNormArgs& args) {
  TINYLOOP_CHECK(args.weight != nullptr && args.groups > 0 && args.cols > 0);
  TINYLOOP_CHECK(args.x.type == ScalarType::f32);
  if (args.y.type == ScalarType::q8) {
    TINYLOOP_CHECK(args.groups == 1 && args.cols % QuantisedBlock::kValues == 0);
    return cpu.for_rows(args.rows, args.cols, [&](int32_t row) {
      HWY_DYNAMIC_DISPATCH(norm_row_to_q8)(args, row);
    });
  }
  TINYLOOP_CHECK(args.y.type == ScalarType::f32);
  cpu.for_items(int64_t{args.rows} * args.groups, args.cols,
                [&](int64_t first, int64_t last, int32_t) {
                  HWY_DYNAMIC_DISPATCH(norm_vectors)(args, first, last);
                });
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
