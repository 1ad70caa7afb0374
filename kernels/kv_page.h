// The layout of the paged K/V cache, as the kernels see it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/row_view.h"

namespace tinyloop::kernels {

// Positions in one physical page. Position p of a sequence lies in entry p / 16 of its page table,
// at place p % 16.
inline constexpr int32_t kPagePositions = 16;

// How the keys of a page lie.
enum class KeyOrder : uint8_t {
  by_dimension,  // [head_dim][16]: a vector holds one dimension of many positions
  by_position,   // [16][head_dim], as values do: for tensor cores
};

// One attention layer's share of a page: K [kv_heads] in the given order, then V
// [kv_heads][16][head_dim]. With keys by dimension, a vector of K holds one dimension of many
// positions and one of V many dimensions of one position: then neither scores nor weighted sums add
// across lanes. A page holds such shares for every layer of its slot group, one after another.
struct KvLayout {
  ScalarType type = ScalarType::f32;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  KeyOrder key_order = KeyOrder::by_dimension;

  size_t head_elements() const { return size_t(kPagePositions) * size_t(head_dim); }
  size_t half_elements() const { return size_t(kv_heads) * head_elements(); }  // K, or V
  // Elements from the share's start to one number; `place` is the position's in its page.
  size_t key_index(int32_t head, int32_t place, int32_t dim) const {
    const size_t within = key_order == KeyOrder::by_dimension
                              ? size_t(dim) * kPagePositions + size_t(place)
                              : size_t(place) * size_t(head_dim) + size_t(dim);
    return size_t(head) * head_elements() + within;
  }
  size_t value_index(int32_t head, int32_t place, int32_t dim) const {
    return half_elements() + size_t(head) * head_elements() + size_t(place) * size_t(head_dim) +
           size_t(dim);
  }
  size_t layer_bytes() const { return 2 * half_elements() * size_of(type); }
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
