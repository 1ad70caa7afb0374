#include "kernels/cuda/cuda_backend.h"

#include "base/check.h"
#include "kernels/cuda/devices.h"

namespace tinyloop::kernels {

CudaBackend::CudaBackend(int device, size_t memory_budget_bytes, ArithmeticMode mode,
                         std::span<const char* const> cublas_names)
    : context_(device, memory_budget_bytes), pace_(pace_of_cuda_device(device)) {
  if (mode == ArithmeticMode::fast) context_.use_cublas(cublas_names);
}

std::string CudaBackend::description() const {
  return context_.description() +
         (context_.has_cublas() ? ", fast, " + context_.cublas_version() : ", f16");
}

void CudaBackend::quantise_rows(const QuantiseRowsArgs&) {
  TINYLOOP_CHECK(!"8-bit rows are the CPU's");
}

}  // namespace tinyloop::kernels
