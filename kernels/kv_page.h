// The layout of the paged K/V cache, as the kernels see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "kernels/row_view.h"

namespace tinyloop::kernels {

// Positions in one physical page. Position p of a sequence lies in entry p / 16 of its page table,
// at place p % 16.
inline constexpr int32_t kPagePositions = 16;

// How a page's numbers lie.
enum class PageOrder : uint8_t {
  // K [kv_heads][head_dim][16], then V [kv_heads][16][head_dim]: a vector of K holds one dimension
  // of many positions and one of V many dimensions of one position, so that neither scores nor
  // weighted sums add across lanes.
  vectors,
  // [kv_heads][K, V][matrix_dims / 8][16][8]: 8 x 8 matrices, as tensor cores take them, one after
  // another. One stretch of bytes holds all that a head has in a page.
  matrices,
};

// The dimensions that heads have in matrices: those that CUDA kernels are made for, and beyond them
// whole steps of 16. What a head does not fill may be anything.
constexpr int32_t matrix_dims(int32_t head_dim) {
  for (int32_t dims : {32, 64, 80, 96, 128, 256}) {
    if (head_dim <= dims) return dims;
  }
  return (head_dim + 15) / 16 * 16;
}

// One attention layer's share of a page. A page holds such shares for every layer of its slot
// group, one after another.
struct KvLayout {
  ScalarType type = ScalarType::f32;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  PageOrder order = PageOrder::vectors;

  // Numbers of a head's K, or V.
  size_t head_elements() const {
    const int32_t dims = order == PageOrder::vectors ? head_dim : matrix_dims(head_dim);
    return size_t(kPagePositions) * size_t(dims);
  }
  // Elements from the share's start to one number; `place` is the position's in its page.
  size_t key_index(int32_t head, int32_t place, int32_t dim) const {
    if (order == PageOrder::matrices) return matrix_index(2 * head, place, dim);
    return size_t(head) * head_elements() + size_t(dim) * kPagePositions + size_t(place);
  }
  size_t value_index(int32_t head, int32_t place, int32_t dim) const {
    if (order == PageOrder::matrices) return matrix_index(2 * head + 1, place, dim);
    return size_t(kv_heads + head) * head_elements() + size_t(place) * size_t(head_dim) +
           size_t(dim);
  }
  size_t layer_bytes() const { return 2 * size_t(kv_heads) * head_elements() * size_of(type); }

 private:
  size_t matrix_index(int32_t part, int32_t place, int32_t dim) const {
    return size_t(part) * head_elements() + size_t(dim / 8 * kPagePositions + place) * 8 +
           size_t(dim % 8);
  }
};

// Up to 64 queries of rows that follow one another in one sequence, to be worked on together: query
// i is head (of a K/V head's group) i % group of row first_row + i / group.
struct QueryTile {
  int32_t first_row;
  int32_t first_query;
  int32_t queries;
  int32_t table;     // row_table of the rows
  int32_t position;  // of first_row
};

// How a batch is cut for attention (kernels/attention_plan.h). Device arrays.
struct QueryTiles {
  const QueryTile* narrow = nullptr;  // of up to kNarrowQueries each
  const QueryTile* wide = nullptr;    // of up to kWideQueries each
  int32_t narrow_count = 0;
  int32_t wide_count = 0;
  int32_t most_context = 0;  // no row attends to more positions
};

// The pages that a batch of rows may touch in one attention layer. All arrays are device memory
// that the host has filled: no op writes them. The rows of one table follow one another at
// consecutive positions, and no row writes a page that another table reads: attention may read keys
// of earlier passes while those of this one are still being stored. Row r uses the page table
// tables[row_table[r]]: page addresses pages[tables[t] + p / 16], of which only those that hold
// attended or written positions are set (the others are null).
struct KvView {
  KvLayout layout;
  size_t layer_offset = 0;  // bytes from a page's start to this layer's share
  std::byte* const* pages = nullptr;
  const int32_t* tables = nullptr;  // [tables] index of a table's first entry in `pages`
  const int32_t* windows =
      nullptr;  // [tables] last positions attended, the own one included; 0: all
  const int32_t* row_table = nullptr;  // [rows]
  const int32_t* positions = nullptr;  // [rows] absolute position of each row
  QueryTiles tiles;  // where the backend asks for them (Backend::wants_query_tiles)
};

}  // namespace tinyloop::kernels
