#include "kernels/cpu/targets.h"
#include "kernels/ffn_activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ffn_activation_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/exp-inl.h"
#include "kernels/cpu/quantise-inl.h"

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

HWY_INLINE Lanes squared_relu(const Lanes& z) {
  const Lanes positive = maximum(z, splat(0.0f));
  return multiply(positive, positive);
}

void activate_row(const FfnActivationArgs& args, int32_t row) {
  const float* up = args.up.f32_row(row);
  float* y = args.y.f32_row(row);
  if (args.type == FfnType::swiglu) {
    const float* gate = args.gate.f32_row(row);
    for_lanes(args.cols, [&](auto read, auto write)
                             TINYLOOP_LAMBDA { write(multiply(silu(read(gate)), read(up)), y); });
  } else {
    for_lanes(args.cols,
              [&](auto read, auto write) TINYLOOP_LAMBDA { write(squared_relu(read(up)), y); });
  }
}

// The same values, rounded to 8 bits.
void activate_row_to_q8(const FfnActivationArgs& args, int32_t row) {
  const float* up = args.up.f32_row(row);
  QuantisedBlock* y = args.y.q8_row(row);
  if (args.type == FfnType::swiglu) {
    const float* gate = args.gate.f32_row(row);
    quantise_row(
        args.cols,
        [&](int32_t k) TINYLOOP_LAMBDA { return multiply(silu(load(gate + k)), load(up + k)); }, y);
  } else {
    quantise_row(
        args.cols, [&](int32_t k) TINYLOOP_LAMBDA { return squared_relu(load(up + k)); }, y);
  }
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"
#include "kernels/cpu/cpu_context.h"

namespace tinyloop::kernels {

HWY_EXPORT(activate_row);
HWY_EXPORT(activate_row_to_q8);

void ffn_activation_cpu(CpuContext& cpu, const FfnActivationArgs& args) {
  constexpr int64_t kElementWork = 4;  // an exponential beside a multiply-add
  TINYLOOP_CHECK(args.up.type == ScalarType::f32);
  TINYLOOP_CHECK(args.type == FfnType::relu2 || args.gate.type == ScalarType::f32);
  if (args.y.type == ScalarType::q8) {
    TINYLOOP_CHECK(args.cols % QuantisedBlock::kValues == 0);
    return cpu.for_rows(args.rows, args.cols * kElementWork, [&](int32_t row) {
      HWY_DYNAMIC_DISPATCH(activate_row_to_q8)(args, row);
    });
  }
  TINYLOOP_CHECK(args.y.type == ScalarType::f32);
  cpu.for_rows(args.rows, args.cols * kElementWork, [&](int32_t row) {
    HWY_DYNAMIC_DISPATCH(activate_row)(args, row);
  });
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
