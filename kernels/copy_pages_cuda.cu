#include "base/check.h"
#include "kernels/copy_pages.h"
#include "kernels/cuda/elementwise.cuh"

namespace tinyloop::kernels {

namespace {

// Rows are pages, columns pieces of 16 bytes.
struct CopyPages {
  std::byte* const* from;
  std::byte* const* to;
  int64_t cols;

  __device__ void run(int page, int piece) const {
    const auto* source = reinterpret_cast<const uint4*>(address(from, page));
    reinterpret_cast<uint4*>(address(to, page))[piece] = __ldcg(source + piece);
  }
  // Past the first-level cache, as load_half() is.
  __device__ static uintptr_t address(std::byte* const* pages, int page) {
    return __ldcg(reinterpret_cast<const unsigned long*>(pages) + page);
  }
};

}  // namespace

void copy_pages_cuda(CudaContext& cuda, const CopyPagesArgs& args) {
  TINYLOOP_CHECK(args.page_bytes % sizeof(uint4) == 0);
  launch_elements(cuda, args.pages,
                  CopyPages{args.from, args.to, int64_t(args.page_bytes / sizeof(uint4))});
}

}  // namespace tinyloop::kernels
