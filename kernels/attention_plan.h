// How the queries of a batch are cut into tiles for tensor cores. A pure function of the rows; the
// cut decides who computes a query, never how.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kv_page.h"

namespace tinyloop::kernels {

inline constexpr int32_t kNarrowQueries = 8;  // the columns of one tensor-core product
inline constexpr int32_t kWideQueries = 64;   // which share the keys and values they read

// Up to here the queries of one run of rows are cut into narrow tiles, of which each reads the keys
// and values.
inline constexpr int32_t kMostNarrow = 2 * kNarrowQueries;

struct AttentionPlan {
  std::vector<QueryTile> narrow, wide;
  int32_t most_context = 0;

  void clear();
};

// `row_table` and `positions` are those of a KvView, on the host; `group` = heads ÷ K/V heads.
// Rows of one table at consecutive positions are cut together: in narrow tiles of whole rows (or of
// a part of one), or, where they have more than kMostNarrow queries, in wide ones. `plan` is
// cleared and filled; its capacity is kept.
void plan_attention(std::span<const int32_t> row_table, std::span<const int32_t> positions,
                    int32_t group, AttentionPlan& plan);

}  // namespace tinyloop::kernels
