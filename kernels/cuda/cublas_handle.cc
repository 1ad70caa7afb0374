#include "kernels/cuda/cublas_handle.h"

#include "base/error.h"

namespace tinyloop::kernels {

namespace {

// What NVIDIA advises for compute capability 9.0. cuBLAS chooses among the algorithms that it is
// enough for.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

DeviceBuffer take_workspace(DeviceMemory& memory) {
  DeviceBuffer buffer(memory, kWorkspaceBytes, MemoryUse::workspace);
  if (buffer) return buffer;
  throw base::Failure(errc::out_of_memory, "cuBLAS work space: " + std::to_string(kWorkspaceBytes) +
                                               " bytes could not be allocated");
}

}  // namespace

CublasHandle::CublasHandle(DeviceMemory& memory, cudaStream_t stream,
                           std::span<const char* const> names)
    : library_(names), workspace_(take_workspace(memory)) {
  library_.check(library_.create(&handle_), "cublasCreate");
  try {
    // In this order: a new stream brings back the library's own work space.
    library_.check(library_.set_stream(handle_, stream), "cublasSetStream");
    library_.check(library_.set_workspace(handle_, workspace_.data(), workspace_.bytes()),
                   "cublasSetWorkspace");
  } catch (...) {
    library_.destroy(handle_);
    throw;
  }
}

CublasHandle::~CublasHandle() {
  library_.destroy(handle_);
}

// cuBLAS counts columns first: to it, our rows are columns. So w is a matrix of `depth` x `outputs`
// that it has to transpose, x one of `depth` x `rows`, and y one of `outputs` x `rows`.
void CublasHandle::run(const Gemm& gemm) {
  const float alpha = 1.0f, beta = gemm.add ? 1.0f : 0.0f;
  library_.check(library_.gemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, gemm.outputs, gemm.rows,
                               gemm.depth, &alpha, gemm.weights, CUDA_R_16F, gemm.weights_pitch,
                               gemm.x, CUDA_R_16F, gemm.x_pitch, &beta, gemm.y, CUDA_R_32F,
                               gemm.y_pitch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                 "cublasGemmEx");
}

std::string CublasHandle::version() const {
  int version = 0;
  library_.check(library_.get_version(handle_, &version), "cublasGetVersion");
  return "cuBLAS " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100);
}

}  // namespace tinyloop::kernels
