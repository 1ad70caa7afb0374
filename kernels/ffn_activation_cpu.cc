#include "kernels/cpu/targets.h"
#include "kernels/ffn_activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ffn_activation_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/quantise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

HWY_INLINE const float* gate_row(const FfnActivationArgs& args, int32_t row) {
  return args.type == FfnType::swiglu ? args.gate.f32_row(row) : nullptr;
}

void activate_row(const FfnActivationArgs& args, int32_t row) {
  const float *gate = gate_row(args, row), *up = args.up.f32_row(row);
  float* y = args.y.f32_row(row);
  for_lanes(args.cols, [&](auto read, auto write)
                           TINYLOOP_LAMBDA { write(activate(args.type, read, gate, up), y); });
}

// The same values, rounded to 8 bits.
void activate_row_to_q8(const FfnActivationArgs& args, int32_t row) {
  const float *gate = gate_row(args, row), *up = args.up.f32_row(row);
  quantise_row(
      args.cols,
      [&](int32_t k) TINYLOOP_LAMBDA {
        const auto read = [k](const float* from) TINYLOOP_LAMBDA { return load(from + k); };
        return activate(args.type, read, gate, up);
      },
      args.y.q8_row(row));
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
