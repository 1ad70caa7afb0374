// cuBLAS, opened when it is asked for: a program that never asks needs no cuBLAS to start, and maps
// none of its 600 MB.
#pragma once

#include <cublas_v2.h>

#include <span>
#include <string>

namespace tinyloop::kernels {

// What the loader is asked for, in this order: the release that this was built with, the one
// before, whatever is there. All of them have the functions below.
inline constexpr const char* kCublasNames[] = {"libcublas.so.13", "libcublas.so.12",
                                               "libcublas.so"};

// The functions of cuBLAS that are used here. Closed with the object.
class CublasLibrary {
 public:
  // Opens the first of `names` that is there. Throws base::Failure(invalid_argument) with the
  // loader's words about each name, or about the function that is missing.
  explicit CublasLibrary(std::span<const char* const> names = kCublasNames);
  ~CublasLibrary();
  CublasLibrary(const CublasLibrary&) = delete;
  CublasLibrary& operator=(const CublasLibrary&) = delete;

  // Throws Failure where `status` is an error: out_of_memory for memory, else replica_failed.
  // `what` names the call: "cublasGemmEx".
  void check(cublasStatus_t status, const char* what) const;

  // As cublas_v2.h declares them.
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasGetVersion_v2) get_version = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasGetStatusName) status_name = nullptr;
  // Spelled out: the header has a second function of this name.
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                         const void* alpha, const void* a, cudaDataType, int lda, const void* b,
                         cudaDataType, int ldb, const void* beta, void* c, cudaDataType, int ldc,
                         cublasComputeType_t, cublasGemmAlgo_t) = nullptr;

 private:
  void resolve();
  template <class Function>
  void find(Function& function, const char* name);

  void* library_ = nullptr;
  std::string name_;
};

}  // namespace tinyloop::kernels
