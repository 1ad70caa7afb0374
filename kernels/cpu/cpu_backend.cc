#include "kernels/cpu/cpu_backend.h"

#include "kernels/weight_panels.h"

namespace tinyloop::kernels {

WeightLayout CpuBackend::weight_layout(WeightType type) const {
  const bool panels = mode_ == ArithmeticMode::int8 && has_panels(type);
  return panels ? WeightLayout::panels : WeightLayout::rows;
}

// Fitted to decode steps of 8 and 64 rows on two cores of a server, of a model that its caches hold
// (bench/results).
Pace CpuBackend::pace() const {
  const double threads = context_.threads();
  return {.weight_bytes_per_s = 40e9,
          .multiply_adds_per_s = (mode_ == ArithmeticMode::int8 ? 55e9 : 10e9) * threads,
          .s_per_layer = 20e-6,
          .s_per_exit = 30e-6};
}

std::string CpuBackend::description() const {
  const int32_t threads = context_.threads();
  return std::string("cpu (") + simd_target_name() + ", " + to_string(mode_) + ", " +
         std::to_string(threads) + (threads == 1 ? " thread)" : " threads)");
}

}  // namespace tinyloop::kernels
