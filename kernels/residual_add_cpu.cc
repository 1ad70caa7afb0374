#include "kernels/cpu/targets.h"
#include "kernels/residual_add.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/residual_add_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

void add_row(const ResidualAddArgs& args, int32_t row) {
  const float* x = args.x.f32_row(row);
  float* y = args.y.f32_row(row);
  for_lanes(args.cols,
            [&](auto read, auto write) TINYLOOP_LAMBDA { write(add(read(y), read(x)), y); });
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"
#include "kernels/cpu/cpu_context.h"

namespace tinyloop::kernels {

HWY_EXPORT(add_row);

void residual_add_cpu(CpuContext& cpu, const ResidualAddArgs& args) {
  TINYLOOP_CHECK(args.x.type == ScalarType::f32 && args.y.type == ScalarType::f32);
  const auto add = HWY_DYNAMIC_DISPATCH(add_row);
  cpu.for_rows(args.rows, args.cols, [&](int32_t row) { add(args, row); });
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
