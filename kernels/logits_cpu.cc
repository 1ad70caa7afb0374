#include <cmath>

#include "kernels/cpu/cpu_context.h"
#include "kernels/linear.h"
#include "kernels/logits.h"

namespace tinyloop::kernels {

void logits_cpu(CpuContext& cpu, const LogitsArgs& args) {
  const int32_t vocab = args.head.rows;
  const RowView y{args.logits, ScalarType::f32, vocab, nullptr};
  linear_cpu(cpu, {args.head, args.x, y, args.rows});
  if (args.softcap == 0.0f) return;
  constexpr int64_t kElementWork = 16;  // a hyperbolic tangent
  cpu.for_items(int64_t{args.rows} * vocab, kElementWork, [&](int64_t begin, int64_t end, int32_t) {
    for (float* z = args.logits + begin; z != args.logits + end; ++z) {
      *z = args.softcap * std::tanh(*z / args.softcap);
    }
  });
}

}  // namespace tinyloop::kernels
