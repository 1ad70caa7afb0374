#include "kernels/attention_plan.h"

#include <algorithm>

namespace tinyloop::kernels {

namespace {

// Rows from `first` on that follow one another in one sequence.
size_t run_length(std::span<const int32_t> row_table, std::span<const int32_t> positions,
                  size_t first) {
  size_t end = first + 1;
  while (end < row_table.size() && row_table[end] == row_table[first] &&
         positions[end] == positions[end - 1] + 1) {
    ++end;
  }
  return end - first;
}

// `run`: all queries of the run as one tile.
void cut(QueryTile run, int32_t size, std::vector<QueryTile>& tiles) {
  for (int32_t first = 0; first < run.queries; first += size) {
    QueryTile tile = run;
    tile.first_query = first;
    tile.queries = std::min(size, run.queries - first);
    tiles.push_back(tile);
  }
}

}  // namespace

void AttentionPlan::clear() {
  narrow.clear();
  wide.clear();
  most_context = 0;
}

void plan_attention(std::span<const int32_t> row_table, std::span<const int32_t> positions,
                    int32_t group, AttentionPlan& plan) {
  plan.clear();
  for (size_t row = 0; row < row_table.size();) {
    const size_t rows = run_length(row_table, positions, row);
    const QueryTile run{.first_row = int32_t(row),
                        .first_query = 0,
                        .queries = int32_t(rows) * group,
                        .table = row_table[row],
                        .position = positions[row]};
    if (run.queries <= kMostNarrow) {
      const int32_t whole_rows = kNarrowQueries / group * group;
      cut(run, whole_rows > 0 ? whole_rows : kNarrowQueries, plan.narrow);
    } else {
      cut(run, kWideQueries, plan.wide);
    }
    plan.most_context = std::max(plan.most_context, positions[row + rows - 1] + 1);
    row += rows;
  }
}

}  // namespace tinyloop::kernels
