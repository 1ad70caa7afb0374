#include "kernels/cpu/targets.h"
#include "kernels/ffn_hidden.h"
#include "kernels/weight_panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ffn_hidden_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/quantise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

// One block of y for each row of both[rows][64]: 32 outputs of gate, then the same ones of up.
void activate_block(const FfnHiddenArgs& args, int32_t first_row, int32_t rows, int32_t block,
                    const float* both) {
  for (int32_t r = 0; r < rows; ++r, both += 2 * kPanelOutputs) {
    quantise_row(
        kPanelOutputs,
        [&](int32_t k) TINYLOOP_LAMBDA {
          const auto read = [k](const float* from) TINYLOOP_LAMBDA { return load(from + k); };
          return activate(args.type, read, both, both + kPanelOutputs);
        },
        args.y.q8_row(first_row + r) + block);
  }
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/panel_product.h"

namespace tinyloop::kernels {

HWY_EXPORT(activate_block);

void ffn_hidden_cpu(CpuContext& cpu, const FfnHiddenArgs& args) {
  constexpr int32_t kMostRows = 32;  // whose gate and up stay in the first-level cache
  constexpr int32_t kStride = 2 * kPanelOutputs;
  static_assert(size_t(kMostRows) * kStride <= CpuContext::kWorkspaceFloats);
  const bool gated = args.type == FfnType::swiglu;
  check_panels(args.up, args.x);
  if (gated) check_panels(args.gate, args.x);
  TINYLOOP_CHECK(!gated || args.gate.rows == args.up.rows);
  TINYLOOP_CHECK(args.y.type == ScalarType::q8 && args.up.rows % kPanelOutputs == 0);

  const PanelProduct product = panel_product();
  const auto activate = HWY_DYNAMIC_DISPATCH(activate_block);
  const int64_t panels = panel_count(args.up);
  const int64_t multiply_adds = int64_t{gated ? 2 : 1} * args.up.rows * args.up.cols * args.rows;
  cpu.pool().parallel_for(panels, chunk_panels(panels, multiply_adds, cpu.threads()),
                          [&](int64_t begin, int64_t end, int32_t thread) {
                            float* both = cpu.workspace(thread);
                            const RowView y{both, ScalarType::f32, kStride, nullptr};
                            for (auto p = int32_t(begin); p < end; ++p) {
                              for (int32_t row = 0; row < args.rows; row += kMostRows) {
                                const int32_t rows = std::min(kMostRows, args.rows - row);
                                const RowView x = args.x.from_row(row);
                                if (gated) product({args.gate, x, y, rows}, p, 0);
                                product({args.up, x, y, rows}, p, kPanelOutputs);
                                activate(args, row, rows, p, both);
                              }
                            }
                          });
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
