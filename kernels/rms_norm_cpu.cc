#include <cmath>

#include "kernels/cpu/targets.h"
#include "kernels/rms_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

HWY_INLINE void norm_vector(const float* x, const float* weight, int32_t cols, float eps,
                            float* y) {
  Lanes squares = splat(0.0f);
  for_lanes(cols, [&](auto read, auto) TINYLOOP_LAMBDA {
    const Lanes xs = read(x);
    squares = multiply_add(xs, xs, squares);
  });
  const double mean = double(sum(squares)) / double(cols);
  const Lanes factor = splat(float(1.0 / std::sqrt(mean + double(eps))));
  for_lanes(cols, [&](auto read, auto write) TINYLOOP_LAMBDA {
    write(multiply(multiply(read(x), factor), read(weight)), y);
  });
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

void rms_norm_cpu(CpuContext& cpu, const RmsNormArgs& args) {
  TINYLOOP_CHECK(args.x.type == ScalarType::f32 && args.y.type == ScalarType::f32);
  TINYLOOP_CHECK(args.weight != nullptr && args.groups > 0 && args.cols > 0);
  cpu.for_items(int64_t{args.rows} * args.groups, args.cols,
                [&](int64_t first, int64_t last, int32_t) {
                  HWY_DYNAMIC_DISPATCH(norm_vectors)(args, first, last);
                });
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
