#include "kernels/cpu/cpu_backend.h"

namespace tinyloop::kernels {

std::string CpuBackend::description() const {
  const int32_t threads = context_.threads();
  return std::string("cpu (") + simd_target_name() + ", " + std::to_string(threads) +
         (threads == 1 ? " thread)" : " threads)");
}

}  // namespace tinyloop::kernels
