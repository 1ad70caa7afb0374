#include <algorithm>

#include "base/check.h"
#include "base/philox.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/initial_state.h"

namespace tinyloop::kernels {

namespace {

void draw_row(float std, int32_t position, int32_t cols, float* y) {
  for (int32_t c = 0; c < cols; c += 2) {
    const auto words = base::philox(kInitialStateKey, base::RandomDomain::initial_state,
                                    uint64_t(position), uint32_t(c / 2));
    const auto pair = base::normal_pair(words);
    y[c] = std * pair[0];
    if (c + 1 < cols) y[c + 1] = std * pair[1];
  }
}

}  // namespace

void initial_state_cpu(CpuContext& cpu, const InitialStateArgs& args) {
  constexpr int64_t kElementWork = 64;  // half of a Philox block and of a Box-Muller pair
  TINYLOOP_CHECK(args.y.type == ScalarType::f32);
  cpu.for_rows(args.rows, args.cols * kElementWork, [&](int32_t row) {
    float* y = args.y.f32_row(row);
    if (args.std == 0.0f) {
      std::fill_n(y, args.cols, 0.0f);
    } else {
      draw_row(args.std, args.positions[row], args.cols, y);
    }
  });
}

}  // namespace tinyloop::kernels
