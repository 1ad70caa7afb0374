#include "base/check.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/residual_add.h"

namespace tinyloop::kernels {

void residual_add_cpu(CpuContext& cpu, const ResidualAddArgs& args) {
  TINYLOOP_CHECK(args.x.type == ScalarType::f32 && args.y.type == ScalarType::f32);
  cpu.for_rows(args.rows, args.cols, [&](int32_t row) {
    const float* x = args.x.f32_row(row);
    float* y = args.y.f32_row(row);
    for (int32_t c = 0; c < args.cols; ++c) y[c] += x[c];
  });
}

}  // namespace tinyloop::kernels
