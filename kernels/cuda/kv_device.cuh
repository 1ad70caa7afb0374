// The paged cache as kernels see it.
#pragma once

#include <cuda_fp16.h>

#include "kernels/kv_page.h"

namespace tinyloop::kernels {

struct DevicePages {
  std::byte* const* pages;
  const int32_t* tables;
  const int32_t* windows;
  const int32_t* row_table;
  const int32_t* positions;
  int64_t layer_offset;
  int32_t kv_heads;
  int32_t head_dim;

  __device__ int position(int row) const { return __ldcg(positions + row); }
  __device__ int table(int row) const { return __ldcg(tables + __ldcg(row_table + row)); }
  // K of one head in the page that holds `position`: [16][head_dim]. V lies value_offset() further.
  __device__ __half* keys(int table, int position, int head) const {
    std::byte* page = reinterpret_cast<std::byte*>(__ldcg(
        reinterpret_cast<const unsigned long long*>(pages) + table + position / kPagePositions));
    return reinterpret_cast<__half*>(page + layer_offset) + head * kPagePositions * head_dim;
  }
  __device__ int64_t value_offset() const { return int64_t{kv_heads} * kPagePositions * head_dim; }
};

inline DevicePages device_pages(const KvView& view) {
  return {view.pages,           view.tables,         view.windows,
          view.row_table,       view.positions,      int64_t(view.layer_offset),
          view.layout.kv_heads, view.layout.head_dim};
}

}  // namespace tinyloop::kernels
