#include "kernels/cpu/cpu_context.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cpu_context.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

const char* target_name() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <string>

#include "base/error.h"

namespace tinyloop::kernels {

HWY_EXPORT(target_name);

const char* simd_target_name() {
  return HWY_DYNAMIC_DISPATCH(target_name)();
}

CpuContext::CpuContext(DeviceMemory& memory, int32_t threads)
    : pool_(threads),
      workspaces_(memory, size_t(threads) * kWorkspaceFloats * sizeof(float),
                  MemoryUse::workspace) {
  if (workspaces_) return;
  const size_t bytes = size_t(threads) * kWorkspaceFloats * sizeof(float);
  throw base::Failure(errc::out_of_memory,
                      "the workspaces of cpu_threads = " + std::to_string(threads) + " need " +
                          std::to_string(bytes) +
                          " bytes; memory_budget_bytes = " + std::to_string(memory.budget()));
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
