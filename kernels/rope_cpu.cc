#include <cmath>

#include "base/check.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/rope.h"

namespace tinyloop::kernels {

void fill_rope_table(float* table, int32_t positions, int32_t head_dim, float freq_base) {
  const int32_t pairs = head_dim / 2;
  for (int32_t i = 0; i < pairs; ++i) {
    const double frequency = std::pow(double(freq_base), -2.0 * i / head_dim);
    for (int32_t p = 0; p < positions; ++p) {
      float* entry = table + (size_t(p) * size_t(pairs) + size_t(i)) * 2;
      entry[0] = float(std::cos(p * frequency));
      entry[1] = float(std::sin(p * frequency));
    }
  }
}

void rope_cpu(CpuContext& cpu, const RopeArgs& args) {
  TINYLOOP_CHECK(args.x.type == ScalarType::f32 && args.head_dim % 2 == 0);
  cpu.for_rows(args.rows, int64_t{args.heads} * args.head_dim, [&](int32_t row) {
    const float* turns = args.cos_sin + size_t(args.positions[row]) * size_t(args.head_dim);
    float* x = args.x.f32_row(row);
    for (int32_t head = 0; head < args.heads; ++head, x += args.head_dim) {
      for (int32_t i = 0; i < args.head_dim; i += 2) {
        const float cosine = turns[i], sine = turns[i + 1];
        const float a = x[i], b = x[i + 1];
        x[i] = a * cosine - b * sine;
        x[i + 1] = a * sine + b * cosine;
      }
    }
  });
}

}  // namespace tinyloop::kernels
