// The layout of the paged K/V cache, as the kernels see it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/row_view.h"

namespace tinyloop::kernels {

// Positions in one physical page. Position p of a sequence lies in entry p / 16 of its page table,
// at place p % 16.
inline constexpr int32_t kPagePositions = 16;

// One attention layer's share of a page: K [kv_heads][head_dim][16], then V
// [kv_heads][16][head_dim]. A vector of K holds one dimension of many positions and one of V many
// dimensions of one position: then neither scores nor weighted sums add across lanes. A page holds
// such shares for every layer of its slot group, one after another.
struct KvLayout {
  ScalarType type = ScalarType::f32;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;

  size_t head_elements() const { return size_t(kPagePositions) * size_t(head_dim); }
  size_t half_elements() const { return size_t(kv_heads) * head_elements(); }  // K, or V
  // Elements from the share's start to one number; `place` is the position's in its page.
  size_t key_index(int32_t head, int32_t place, int32_t dim) const {
    return size_t(head) * head_elements() + size_t(dim) * kPagePositions + size_t(place);
  }
  size_t value_index(int32_t head, int32_t place, int32_t dim) const {
    return half_elements() + size_t(head) * head_elements() + size_t(place) * size_t(head_dim) +
           size_t(dim);
  }
  size_t layer_bytes() const { return 2 * half_elements() * size_of(type); }
};

// The pages that a batch of rows may touch in one attention layer. All arrays are device memory.
// Row r uses the page table tables[row_table[r]]: page addresses pages[tables[t] + p / 16], of
// which only those that hold attended or written positions are set (the others are null).
struct KvView {
  KvLayout layout;
  size_t layer_offset = 0;  // bytes from a page's start to this layer's share
  std::byte* const* pages = nullptr;
  const int32_t* tables = nullptr;  // [tables] index of a table's first entry in `pages`
  const int32_t* windows =
      nullptr;  // [tables] last positions attended, the own one included; 0: all
  const int32_t* row_table = nullptr;  // [rows]
  const int32_t* positions = nullptr;  // [rows] absolute position of each row
};

}  // namespace tinyloop::kernels
