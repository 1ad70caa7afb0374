#include <algorithm>
#include <charconv>
#include <new>
#include <optional>
#include <string_view>
#include <thread>

#include "base/limits.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#ifdef TINYLOOP_WITH_CUDA
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/devices.h"
#endif

namespace tinyloop::kernels {

namespace {

base::Error invalid(std::string detail) {
  return {errc::invalid_argument, std::move(detail)};
}

std::string mode_name(ArithmeticMode mode) {
  return std::string(to_string(mode)) + " (" + std::to_string(int(mode)) + ")";
}

base::Result<std::unique_ptr<Backend>> make_cpu_backend(const ModelOptions& options) {
  const auto cores =
      int32_t(std::clamp(std::thread::hardware_concurrency(), 1u, unsigned{base::kMaxCpuThreads}));
  const int32_t threads = options.cpu_threads == 0 ? cores : options.cpu_threads;
  const ArithmeticMode mode =
      options.mode == ArithmeticMode::automatic ? ArithmeticMode::int8 : options.mode;
  if (mode != ArithmeticMode::int8 && mode != ArithmeticMode::f32) {
    return invalid("mode = " + mode_name(mode) + ": the CPU has int8 and f32");
  }
  try {
    return std::make_unique<CpuBackend>(mode, threads, options.memory_budget_bytes);
  } catch (const base::Failure& failure) {
    return failure.error();
  } catch (const std::bad_alloc&) {
    return base::Error{errc::out_of_memory, "no host memory for the CPU backend"};
  }
}

// "cuda:N" → N.
std::optional<int> cuda_ordinal(std::string_view device) {
  constexpr std::string_view kPrefix = "cuda:";
  if (!device.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = device.substr(kPrefix.size());
  int ordinal = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && ordinal >= 0 ? std::optional(ordinal) : std::nullopt;
}

#ifdef TINYLOOP_WITH_CUDA
base::Result<std::unique_ptr<Backend>> make_cuda_backend(const ModelOptions& options, int ordinal) {
  const ArithmeticMode mode =
      options.mode == ArithmeticMode::automatic ? ArithmeticMode::f16 : options.mode;
  if (mode != ArithmeticMode::f16 && mode != ArithmeticMode::fast) {
    return invalid("mode = " + mode_name(mode) + ": a CUDA device has f16 and fast");
  }
  const int count = cuda_device_count();
  if (ordinal >= count) {
    return invalid("device = \"" + options.device + "\": this machine has " +
                   std::to_string(count) + " CUDA devices: " + list_cuda_devices());
  }
  if (!can_use_cuda_device(ordinal)) {
    return invalid("device = \"" + options.device +
                   "\": compute capability 8.0 or later is needed: " + list_cuda_devices());
  }
  try {
    return std::make_unique<CudaBackend>(ordinal, options.memory_budget_bytes, mode);
  } catch (const base::Failure& failure) {
    return failure.error();
  } catch (const std::bad_alloc&) {
    return base::Error{errc::out_of_memory, "no host memory for the CUDA backend"};
  }
}
#else
int cuda_device_count() {
  return 0;
}
bool can_use_cuda_device(int) {
  return false;
}

base::Result<std::unique_ptr<Backend>> make_cuda_backend(const ModelOptions& options, int) {
  return invalid("device = \"" + options.device + "\": this build has no CUDA parts");
}
#endif

}  // namespace

base::Result<std::unique_ptr<Backend>> make_backend(const ModelOptions& options) {
  if (options.device == "cpu") return make_cpu_backend(options);
  if (options.device == "auto") {
    const bool for_cpu =
        options.mode == ArithmeticMode::int8 || options.mode == ArithmeticMode::f32;
    const bool has_cuda = cuda_device_count() > 0 && can_use_cuda_device(0);
    return for_cpu || !has_cuda ? make_cpu_backend(options) : make_cuda_backend(options, 0);
  }
  if (const auto ordinal = cuda_ordinal(options.device)) {
    return make_cuda_backend(options, *ordinal);
  }
  return invalid("device = \"" + options.device + "\": must be \"auto\", \"cpu\" or \"cuda:N\"");
}

std::string cuda_status() {
#ifdef TINYLOOP_WITH_CUDA
  return list_cuda_devices();
#else
  return "not built in";
#endif
}

}  // namespace tinyloop::kernels
