// Stores the K and V vectors of each row at the row's position in its pages.
#pragma once

#include "kernels/kv_page.h"
#include "kernels/row_view.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

struct KvAppendArgs {
  RowView k;  // [rows, kv_heads · head_dim] scratch type, RoPE already applied
  RowView v;  // likewise, as projected
  KvView cache;
  int32_t rows = 0;
};

void kv_append_cpu(CpuContext& cpu, const KvAppendArgs& args);
void kv_append_cuda(CudaContext& cuda, const KvAppendArgs& args);

}  // namespace tinyloop::kernels
