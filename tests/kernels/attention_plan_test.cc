// How rows are cut into tiles of queries.
#include "kernels/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "tests/support/op_random.h"

namespace tinyloop::testing {
namespace {

using kernels::AttentionPlan;
using kernels::kNarrowQueries;
using kernels::kWideQueries;
using kernels::QueryTile;

struct Rows {
  std::vector<int32_t> tables, positions;

  Rows& run(int32_t table, int32_t first, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      tables.push_back(table);
      positions.push_back(first + i);
    }
    return *this;
  }
  AttentionPlan plan(int32_t group) const {
    AttentionPlan plan;
    kernels::plan_attention(tables, positions, group, plan);
    return plan;
  }
};

using Tile = std::array<int32_t, 3>;
std::vector<Tile> tiles(const std::vector<QueryTile>& from) {
  std::vector<Tile> out;
  for (const QueryTile& t : from) out.push_back({t.first_row, t.first_query, t.queries});
  return out;
}

TEST(AttentionPlanTest, NoRows) {
  const AttentionPlan plan = Rows().plan(4);
  EXPECT_TRUE(plan.narrow.empty());
  EXPECT_TRUE(plan.wide.empty());
  EXPECT_EQ(plan.most_context, 0);
}

TEST(AttentionPlanTest, DecodingRowsAreNarrowTilesOfTheirOwn) {
  const AttentionPlan plan = Rows().run(0, 41, 1).run(1, 7, 1).run(2, 8, 1).plan(4);
  EXPECT_EQ(tiles(plan.narrow), (std::vector<Tile>{{0, 0, 4}, {1, 0, 4}, {2, 0, 4}}));
  EXPECT_TRUE(plan.wide.empty());
  EXPECT_EQ(plan.most_context, 42);
}

TEST(AttentionPlanTest, ALargeGroupOfOneRowIsTwoNarrowTilesOrAWideOne) {
  EXPECT_EQ(tiles(Rows().run(0, 9, 1).plan(16).narrow), (std::vector<Tile>{{0, 0, 8}, {0, 8, 8}}));
  EXPECT_EQ(tiles(Rows().run(0, 9, 1).plan(11).narrow), (std::vector<Tile>{{0, 0, 8}, {0, 8, 3}}));
  EXPECT_EQ(tiles(Rows().run(0, 9, 1).plan(40).wide), (std::vector<Tile>{{0, 0, 40}}));
}

TEST(AttentionPlanTest, AFewRowsThatFollowShareANarrowTile) {
  EXPECT_EQ(tiles(Rows().run(3, 100, 2).plan(4).narrow), (std::vector<Tile>{{0, 0, 8}}));
  EXPECT_EQ(tiles(Rows().run(3, 100, 8).plan(1).narrow), (std::vector<Tile>{{0, 0, 8}}));
  EXPECT_EQ(Rows().run(3, 100, 2).plan(4).most_context, 102);
}

TEST(AttentionPlanTest, SomeMoreAreTwoTilesOfWholeRows) {
  EXPECT_EQ(tiles(Rows().run(0, 100, 4).plan(4).narrow), (std::vector<Tile>{{0, 0, 8}, {0, 8, 8}}));
  EXPECT_EQ(tiles(Rows().run(0, 100, 4).plan(3).narrow), (std::vector<Tile>{{0, 0, 6}, {0, 6, 6}}));
  EXPECT_EQ(tiles(Rows().run(0, 100, 2).plan(8).narrow), (std::vector<Tile>{{0, 0, 8}, {0, 8, 8}}));
  EXPECT_EQ(tiles(Rows().run(0, 100, 17).plan(1).wide), (std::vector<Tile>{{0, 0, 17}}));
}

TEST(AttentionPlanTest, PrefillsAreWideTiles) {
  const AttentionPlan plan = Rows().run(0, 5, 1).run(1, 0, 50).plan(3);
  EXPECT_EQ(tiles(plan.narrow), (std::vector<Tile>{{0, 0, 3}}));
  EXPECT_EQ(tiles(plan.wide), (std::vector<Tile>{{1, 0, 64}, {1, 64, 64}, {1, 128, 22}}));
  EXPECT_EQ(plan.most_context, 50);
}

TEST(AttentionPlanTest, GapsRepeatsAndOtherTablesEndARun) {
  Rows rows;
  rows.run(0, 10, 2).run(0, 13, 2);  // 12 is missing
  rows.run(0, 14, 1);                // again
  rows.run(1, 15, 1);                // another sequence goes on where this one ended
  rows.run(1, 14, 1);                // backwards
  const AttentionPlan plan = rows.plan(1);
  EXPECT_EQ(tiles(plan.narrow),
            (std::vector<Tile>{{0, 0, 2}, {2, 0, 2}, {4, 0, 1}, {5, 0, 1}, {6, 0, 1}}));
  EXPECT_EQ(plan.most_context, 16);
}

TEST(AttentionPlanTest, APlanIsClearedBeforeItIsFilled) {
  AttentionPlan plan = Rows().run(0, 0, 100).plan(8);
  kernels::plan_attention(std::vector<int32_t>{4}, std::vector<int32_t>{2}, 1, plan);
  EXPECT_EQ(tiles(plan.narrow), (std::vector<Tile>{{0, 0, 1}}));
  EXPECT_TRUE(plan.wide.empty());
  EXPECT_EQ(plan.most_context, 3);
}

// Random batches: every query is in one tile, and the rows of a tile follow one another.
TEST(AttentionPlanTest, EveryQueryIsInOneTile) {
  OpRandom random(11);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    Rows rows;
    for (int32_t n = 1 + random.below(8); n > 0; --n) {
      rows.run(random.below(4), random.below(50), 1 + random.below(90));
    }
    const int32_t group = 1 + random.below(33);
    const AttentionPlan plan = rows.plan(group);
    std::map<std::pair<int32_t, int32_t>, int> seen;  // (row, head of the group)
    const auto check = [&](const QueryTile& tile, int32_t most) {
      EXPECT_GT(tile.queries, 0);
      EXPECT_LE(tile.queries, most);
      for (int32_t q = tile.first_query; q < tile.first_query + tile.queries; ++q) {
        const auto first = size_t(tile.first_row), row = first + size_t(q / group);
        ASSERT_LT(row, rows.tables.size());
        ++seen[{int32_t(row), q % group}];
        EXPECT_EQ(rows.tables[row], rows.tables[first]);
        EXPECT_EQ(rows.positions[row], rows.positions[first] + q / group);
      }
    };
    for (const QueryTile& tile : plan.narrow) check(tile, kNarrowQueries);
    for (const QueryTile& tile : plan.wide) check(tile, kWideQueries);
    EXPECT_EQ(seen.size(), rows.tables.size() * size_t(group));
    for (const auto& [query, times] : seen) EXPECT_EQ(times, 1);
    EXPECT_EQ(plan.most_context,
              *std::max_element(rows.positions.begin(), rows.positions.end()) + 1);
  }
}

}  // namespace
}  // namespace tinyloop::testing
