#include "kernels/cuda/cuda_backend.h"

#include "base/check.h"

namespace tinyloop::kernels {

void CudaBackend::quantise_rows(const QuantiseRowsArgs&) {
  TINYLOOP_CHECK(!"8-bit rows are the CPU's");
}

}  // namespace tinyloop::kernels
