#include <algorithm>
#include <new>
#include <thread>

#include "base/limits.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#ifdef TINYLOOP_WITH_CUDA
#include "kernels/cuda/devices.h"
#endif

namespace tinyloop::kernels {

namespace {

base::Error invalid(std::string detail) {
  return {errc::invalid_argument, std::move(detail)};
}

base::Result<std::unique_ptr<Backend>> make_cpu_backend(const ModelOptions& options) {
  const auto cores =
      int32_t(std::clamp(std::thread::hardware_concurrency(), 1u, unsigned{base::kMaxCpuThreads}));
  const int32_t threads = options.cpu_threads == 0 ? cores : options.cpu_threads;
  try {
    return std::make_unique<CpuBackend>(options.mode, threads, options.memory_budget_bytes);
  } catch (const base::Failure& failure) {
    return failure.error();
  } catch (const std::bad_alloc&) {
    return base::Error{errc::out_of_memory, "no host memory for the CPU backend"};
  }
}

}  // namespace

base::Result<std::unique_ptr<Backend>> make_backend(const ModelOptions& options) {
  if (options.mode != ArithmeticMode::int8 && options.mode != ArithmeticMode::f32) {
    return invalid("mode = " + std::to_string(int(options.mode)) + ": must be int8 or f32");
  }
  if (options.device == "cpu") return make_cpu_backend(options);
  return invalid("device = \"" + options.device + "\": must be \"cpu\"");
}

std::string cuda_status() {
#ifdef TINYLOOP_WITH_CUDA
  return list_cuda_devices();
#else
  return "not built in";
#endif
}

}  // namespace tinyloop::kernels
