#include "kernels/cpu/cpu_backend.h"

#include "kernels/weight_panels.h"

namespace tinyloop::kernels {

WeightLayout CpuBackend::weight_layout(WeightType type) const {
  const bool panels = mode_ == ArithmeticMode::int8 && has_panels(type);
  return panels ? WeightLayout::panels : WeightLayout::rows;
}

std::string CpuBackend::description() const {
  const int32_t threads = context_.threads();
  return std::string("cpu (") + simd_target_name() + ", " + to_string(mode_) + ", " +
         std::to_string(threads) + (threads == 1 ? " thread)" : " threads)");
}

}  // namespace tinyloop::kernels
