#include <cstring>

#include "base/check.h"
#include "kernels/copy_rows.h"
#include "kernels/cpu/cpu_context.h"

namespace tinyloop::kernels {

void copy_rows_cpu(CpuContext& cpu, const CopyRowsArgs& args) {
  TINYLOOP_CHECK(args.x.type == ScalarType::f32 && args.y.type == ScalarType::f32);
  cpu.for_rows(args.rows, args.cols, [&](int32_t row) {
    const float* x = args.x.f32_row(row);
    float* y = args.y.f32_row(row);
    std::memcpy(y, x, size_t(args.cols) * sizeof(float));
  });
}

}  // namespace tinyloop::kernels
