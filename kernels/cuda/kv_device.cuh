// The paged cache as kernels see it: pages of matrices (PageOrder::matrices).
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
  int32_t dims;         // matrix_dims(head_dim)
  int32_t head_stride;  // elements of a page from one head to the next

  __device__ int position(int row) const { return __ldcg(positions + row); }
  __device__ int table(int row) const { return __ldcg(tables + __ldcg(row_table + row)); }
  // Bytes of the page that holds `position`.
  __device__ std::byte* page(int table, int position) const {
    return reinterpret_cast<std::byte*>(__ldcg(reinterpret_cast<const unsigned long long*>(pages) +
                                               table + position / kPagePositions));
  }
  // K of one head at `position`: dimension d lies matrix_place(d) further, V value_offset().
  __device__ __half* keys(int table, int position, int head) const {
    return reinterpret_cast<__half*>(page(table, position) + layer_offset) + head * head_stride +
           position % kPagePositions * 8;
  }
  __device__ static int matrix_place(int dim) { return dim / 8 * 8 * kPagePositions + dim % 8; }
  __device__ int value_offset() const { return kPagePositions * dims; }
};

inline DevicePages device_pages(const KvView& view) {
  const int32_t dims = matrix_dims(view.layout.head_dim);
  return {view.pages,
          view.tables,
          view.windows,
          view.row_table,
          view.positions,
          int64_t(view.layer_offset),
          view.layout.kv_heads,
          view.layout.head_dim,
          dims,
          2 * kPagePositions * dims};
}

}  // namespace tinyloop::kernels
