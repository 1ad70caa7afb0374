// Copies of whole pages of the K/V cache: what a sequence does that is about to write a page which
// others read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

struct CopyPagesArgs {
  std::byte* const* from = nullptr;  // [pages] device array of page addresses
  std::byte* const* to = nullptr;    // [pages] none of which is in `from`
  int32_t pages = 0;
  size_t page_bytes = 0;  // a multiple of 64, as KvLayout::layer_bytes is
};

void copy_pages_cpu(CpuContext& cpu, const CopyPagesArgs& args);
void copy_pages_cuda(CudaContext& cuda, const CopyPagesArgs& args);

}  // namespace tinyloop::kernels
