#include <cstring>

#include "kernels/copy_pages.h"
#include "kernels/cpu/cpu_context.h"

namespace tinyloop::kernels {

void copy_pages_cpu(CpuContext& cpu, const CopyPagesArgs& args) {
  cpu.for_rows(args.pages, int32_t(args.page_bytes / sizeof(float)),
               [&](int32_t page) { std::memcpy(args.to[page], args.from[page], args.page_bytes); });
}

}  // namespace tinyloop::kernels
