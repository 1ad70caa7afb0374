#include "base/check.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/embed.h"

namespace tinyloop::kernels {

void embed_cpu(CpuContext& cpu, const EmbedArgs& args) {
  TINYLOOP_CHECK(args.y.type == ScalarType::f32 && args.table);
  const int32_t cols = args.table.cols;
  cpu.for_rows(args.rows, cols, [&](int32_t row) {
    float* y = args.y.f32_row(row);
    dequantise_row(args.table, args.tokens[row], y);
    for (int32_t c = 0; c < cols; ++c) y[c] *= args.scale;
  });
}

}  // namespace tinyloop::kernels
