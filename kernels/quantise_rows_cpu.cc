#include "kernels/cpu/targets.h"
#include "kernels/quantise_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantise_rows_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/quantise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

// In place a block ends before the next one's values begin: 44 bytes are written, 128 were read.
void quantise_f32_row(const QuantiseRowsArgs& args, int32_t row) {
  const float* x = args.x.f32_row(row);
  quantise_row(
      args.cols, [x](int32_t k) TINYLOOP_LAMBDA { return load(x + k); }, args.y.q8_row(row));
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"
#include "kernels/cpu/cpu_context.h"

namespace tinyloop::kernels {

HWY_EXPORT(quantise_f32_row);

void quantise_rows_cpu(CpuContext& cpu, const QuantiseRowsArgs& args) {
  TINYLOOP_CHECK(args.x.type == ScalarType::f32 && args.y.type == ScalarType::q8);
  TINYLOOP_CHECK(args.cols % QuantisedBlock::kValues == 0);
  cpu.for_rows(args.rows, args.cols, [&](int32_t row) {
    HWY_DYNAMIC_DISPATCH(quantise_f32_row)(args, row);
  });
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
