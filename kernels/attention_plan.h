// How the queries of a batch are cut into tiles for tensor cores. A pure function of the rows; the
// cut decides who computes a query, never how.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kv_page.h"

namespace tinyloop::kernels {

inline constexpr int32_t kNarrowQueries = 16;  // one operand of a tensor-core product
inline constexpr int32_t kWideQueries = 64;    // four, which share the keys and values they read

// Up to here the queries of one run of rows are cut into narrow tiles: there are not enough of them
// to keep a device busy with wide ones, while the splits of narrow ones are spread over its blocks.
inline constexpr int32_t kMostNarrow = 2 * kWideQueries;

struct AttentionPlan {
  std::vector<QueryTile> narrow, wide;
  int32_t most_context = 0;

  void clear();
};

// `row_table` and `positions` are those of a KvView, on the host; `group` = heads ÷ K/V heads.
// Rows of one table at consecutive positions are cut together: in narrow tiles of whole rows, or,
// where they have more than kMostNarrow queries, in wide ones. `plan` is cleared and filled; its
// capacity is kept.
void plan_attention(std::span<const int32_t> row_table, std::span<const int32_t> positions,
                    int32_t group, AttentionPlan& plan);

}  // namespace tinyloop::kernels
