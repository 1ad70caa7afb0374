#include "kernels/cuda/cublas_library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace tinyloop::kernels {

namespace {

std::string loader_error() {
  const char* text = dlerror();
  return text ? text : "no reason given";
}

}  // namespace

CublasLibrary::CublasLibrary(std::span<const char* const> names) {
  std::string tried;
  for (const char* name : names) {
    // Once in the process it stays there: it registers its kernels with the driver and starts
    // threads, and to load it costs most of a second.
    library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library_) {
      name_ = name;
      break;
    }
    tried += "; " + std::string(name) + ": " + loader_error();
  }
  if (!library_) {
    throw base::Failure(errc::invalid_argument, "mode = fast: cuBLAS could not be loaded" + tried);
  }
  try {
    resolve();
  } catch (...) {
    dlclose(library_);
    throw;
  }
}

CublasLibrary::~CublasLibrary() {
  dlclose(library_);
}

void CublasLibrary::resolve() {
  find(create, "cublasCreate_v2");
  find(destroy, "cublasDestroy_v2");
  find(get_version, "cublasGetVersion_v2");
  find(set_stream, "cublasSetStream_v2");
  find(set_workspace, "cublasSetWorkspace_v2");
  find(status_name, "cublasGetStatusName");
  find(gemm, "cublasGemmEx");
}

template <class Function>
void CublasLibrary::find(Function& function, const char* name) {
  dlerror();
  function = reinterpret_cast<Function>(dlsym(library_, name));
  if (function) return;
  throw base::Failure(errc::invalid_argument,
                      "mode = fast: " + name_ + " is no cuBLAS to work with: " + loader_error());
}

void CublasLibrary::check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const errc code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? errc::out_of_memory : errc::replica_failed;
  throw base::Failure(code, std::string(what) + ": " + status_name(status));
}

}  // namespace tinyloop::kernels
