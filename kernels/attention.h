// Causal grouped-query attention over the paged cache, for a ragged batch: each row attends to the
// positions [max(0, p − window + 1), p] of its own sequence, p being its own position; its own K
// and V have been appended before. out = softmax(q · Kᵀ / sqrt(head_dim)) · V, head h reading K/V
// head h / (heads / kv_heads).
//
// Determinism: the context is cut at absolute multiples of kAttentionSplit positions; each split
// has its own maximum, sum and weighted sum; splits are merged in order of position. A row's result
// depends on its own q, position, window and cache alone.
#pragma once

#include "kernels/kv_page.h"
#include "kernels/row_view.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

inline constexpr int32_t kAttentionSplit = 256;  // a multiple of kPagePositions
static_assert(kAttentionSplit % kPagePositions == 0);
inline constexpr int32_t kMostCudaHeadDim = 256;  // that the CUDA op takes on any device

struct AttentionArgs {
  RowView q;    // [rows, heads · head_dim] scratch type, RoPE already applied
  RowView out;  // [rows, heads · head_dim] scratch type
  KvView cache;
  int32_t rows = 0;
  int32_t heads = 0;  // a multiple of cache.layout.kv_heads
};

void attention_cpu(CpuContext& cpu, const AttentionArgs& args);
void attention_cuda(CudaContext& cuda, const AttentionArgs& args);
// The longest vector of a head for which the device's shared memory has room.
int32_t most_head_dim_cuda(const CudaContext& cuda);

}  // namespace tinyloop::kernels
