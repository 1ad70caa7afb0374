#include "kernels/cpu/targets.h"
#include "kernels/ffn_activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ffn_activation_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

// exp(−z) stays finite by the bound on −z; below z = −88 silu is less than 1e-36 in size.
HWY_INLINE Lanes silu(const Lanes& z) {
  return map(
      [](auto v) TINYLOOP_LAMBDA {
        const FloatTag tag;
        const auto minus = hn::Min(hn::Neg(v), hn::Set(tag, 88.0f));
        return hn::Div(v, hn::Add(hn::Set(tag, 1.0f), hn::Exp(tag, minus)));
      },
      z);
}

void activate_row(const FfnActivationArgs& args, int32_t row) {
  const float* up = args.up.f32_row(row);
  float* y = args.y.f32_row(row);
  if (args.type == FfnType::swiglu) {
    const float* gate = args.gate.f32_row(row);
    for_lanes(args.cols, [&](auto read, auto write)
                             TINYLOOP_LAMBDA { write(multiply(silu(read(gate)), read(up)), y); });
  } else {
    for_lanes(args.cols, [&](auto read, auto write) TINYLOOP_LAMBDA {
      const Lanes positive = maximum(read(up), splat(0.0f));
      write(multiply(positive, positive), y);
    });
  }
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"
#include "kernels/cpu/cpu_context.h"

namespace tinyloop::kernels {

HWY_EXPORT(activate_row);

void ffn_activation_cpu(CpuContext& cpu, const FfnActivationArgs& args) {
  constexpr int64_t kElementWork = 4;  // an exponential beside a multiply-add
  TINYLOOP_CHECK(args.up.type == ScalarType::f32 && args.y.type == ScalarType::f32);
  TINYLOOP_CHECK(args.type == FfnType::relu2 || args.gate.type == ScalarType::f32);
  cpu.for_rows(args.rows, args.cols * kElementWork, [&](int32_t row) {
    HWY_DYNAMIC_DISPATCH(activate_row)(args, row);
  });
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
