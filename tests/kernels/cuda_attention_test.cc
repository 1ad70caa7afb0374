// Attention on the tensor cores: rows are cut into tiles by what stands beside them, which must not
// change a bit of what they give.
#include <algorithm>

#include "kernels/attention.h"
#include "tests/support/op_cache.h"
#include "tests/support/op_test.h"

namespace tinyloop::testing {
namespace {

using kernels::ScalarType;

constexpr int32_t kContexts[] = {1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 4095};
constexpr int32_t kGroups[] = {1, 2, 3, 4, 8, 32};
// Those that kernels are made for, then some with a rest: of few dimensions, of many, one whose
// rows no vector fits, and one no pair.
constexpr int32_t kHeadDims[] = {64, 80, 96, 128, 256, 24, 34, 112, 200, 7};
constexpr int32_t kWindows[] = {0, 16, 300, 1500};
constexpr int32_t kKvHeads = 2;
constexpr int32_t kLongestRun = 70;  // rows of a prefill
// Rows beside one another: so few that each is shared by the blocks of a cluster, so many that each
// has one block, and some between.
constexpr int32_t kOthers[] = {0, 32, 64, 200};

// All windows for the common heads; for the others some.
std::vector<int32_t> windows_for(int32_t head_dim) {
  if (head_dim == 64 || head_dim == 128) return {std::begin(kWindows), std::end(kWindows)};
  return {0, 300};
}

class CudaAttentionTest : public OpTest {
 protected:
  void TearDown() override {
    cache_.reset();  // before the backend that it lies on
    OpTest::TearDown();
  }
  // One sequence for each of contexts_, with room for a run around its last row. Made anew for each
  // window; the groups share it.
  void make_cache(int32_t head_dim, int32_t window) {
    head_dim_ = head_dim;
    sequences_.clear();
    std::vector<int32_t> first_rows;
    for (int32_t context : contexts_) {
      sequences_.push_back(random_sequence(ScalarType::f16, {kKvHeads, kKvHeads, head_dim},
                                           context + kLongestRun, window, random()));
      first_rows.push_back(std::max(0, context - kLongestRun));
    }
    cache_ = std::make_unique<OpCache>(backend(), ScalarType::f16,
                                       AttentionShape{kKvHeads, kKvHeads, head_dim}, sequences_,
                                       first_rows, random());
  }
  // The query of a row is a function of its table and position: a row is the same row wherever it
  // stands.
  void choose_group(int32_t group) {
    group_ = group;
    queries_.clear();
    for (size_t s = 0; s < contexts_.size(); ++s) {
      const auto rows = size_t(2 * kLongestRun);
      queries_.push_back(operands(backend(), random().values(rows * size_t(cols()), 2.0f)));
    }
  }
  int32_t tables() const { return int32_t(contexts_.size()); }
  int32_t cols() const { return kKvHeads * group_ * head_dim_; }
  AttentionShape shape() const { return {kKvHeads * group_, kKvHeads, head_dim_}; }

  std::vector<float> query(int32_t table, int32_t position) const {
    const int32_t first = std::max(0, contexts_[size_t(table)] - kLongestRun);
    return row_of(queries_[size_t(table)], position - first, cols());
  }
  std::vector<float> queries_of(const CacheRows& rows) const {
    std::vector<float> q;
    for (int32_t r = 0; r < rows.count(); ++r) {
      const auto one = query(rows.tables[size_t(r)], rows.positions[size_t(r)]);
      q.insert(q.end(), one.begin(), one.end());
    }
    return q;
  }
  std::vector<float> run(const CacheRows& rows) {
    const auto layout = random().below(2) == 0 ? RowLayout::dense : RowLayout::scattered;
    const OpMatrix q(backend(), rows.count(), cols(), layout, random(), queries_of(rows),
                     ScalarType::f16);
    const OpMatrix out(backend(), rows.count(), cols(), layout, random());
    const DeviceCacheRows device_rows(backend(), rows, group_);
    backend().attention(
        {q.view(), out.view(), cache_->view(device_rows), rows.count(), shape().heads});
    EXPECT_TRUE(out.untouched());
    return out.values();
  }
  // `count` rows that follow one another, the last row of `table` among them.
  CacheRows run_around(int32_t table, int32_t count) {
    const int32_t row = contexts_[size_t(table)] - 1;
    const int32_t before = std::min(random().below(count), row);
    CacheRows rows;
    for (int32_t i = 0; i < count; ++i) rows.add(table, row - before + i);
    return rows;
  }
  // The last row of every table beside `others` more of any, in any order.
  CacheRows mixed(int32_t others) {
    CacheRows rows, shuffled;
    for (int32_t table = 0; table < tables(); ++table) {
      rows.add(table, contexts_[size_t(table)] - 1);
    }
    for (int32_t i = 0; i < others; ++i) {
      const int32_t table = random().below(tables());
      const int32_t first = std::max(0, contexts_[size_t(table)] - kLongestRun);
      rows.add(table, first + random().below(contexts_[size_t(table)] - first));
    }
    for (int32_t r : random().distinct(rows.count(), rows.count())) {
      shuffled.add(rows.tables[size_t(r)], rows.positions[size_t(r)]);
    }
    return shuffled;
  }
  // The results of the rows that are the last of their table.
  void expect_alone(const CacheRows& rows, const std::vector<float>& got,
                    const std::vector<std::vector<float>>& alone) {
    int32_t compared = 0;
    for (int32_t r = 0; r < rows.count(); ++r) {
      const auto table = size_t(rows.tables[size_t(r)]);
      if (rows.positions[size_t(r)] != contexts_[table] - 1) continue;
      EXPECT_TRUE(same_bits(alone[table], row_of(got, r, cols())))
          << "context " << contexts_[table] << ", row " << r << " of " << rows.count();
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }

  // One row alone, for each table.
  std::vector<std::vector<float>> each_alone() {
    std::vector<std::vector<float>> alone;
    for (int32_t table = 0; table < tables(); ++table) {
      CacheRows one;
      one.add(table, contexts_[size_t(table)] - 1);
      alone.push_back(run(one));
    }
    return alone;
  }

  std::vector<int32_t> contexts_{std::begin(kContexts), std::end(kContexts)};
  int32_t head_dim_ = 0, group_ = 0;
  std::vector<CachedSequence> sequences_;
  std::vector<std::vector<float>> queries_;  // [table][rows from the first that is asked about]
  std::unique_ptr<OpCache> cache_;
};

TEST_P(CudaAttentionTest, ARowHasTheSameBitsAloneInAPrefillAndBesideOthers) {
  for (int32_t head_dim : kHeadDims) {
    for (int32_t window : windows_for(head_dim)) {
      make_cache(head_dim, window);
      for (int32_t group : kGroups) {
        SCOPED_TRACE(::testing::Message()
                     << "head_dim " << head_dim << ", window " << window << ", group " << group);
        choose_group(group);
        const auto alone = each_alone();
        for (int32_t table = 0; table < tables(); ++table) {
          for (int32_t count : {2, 4, 8, 9, 17, 2 + random().below(kLongestRun - 1), kLongestRun}) {
            const CacheRows rows = run_around(table, count);
            expect_alone(rows, run(rows), alone);
          }
        }
        for (int32_t others : kOthers) {
          const CacheRows rows = mixed(others);
          expect_alone(rows, run(rows), alone);
        }
        // So many wide tiles that each has one block of threads; a few have a cluster.
        CacheRows prompts;
        for (int32_t table = 0; table < tables(); ++table) {
          const CacheRows rows = run_around(table, kLongestRun);
          for (int32_t position : rows.positions) prompts.add(table, position);
        }
        expect_alone(prompts, run(prompts), alone);
      }
    }
  }
}

TEST_P(CudaAttentionTest, PrefillsAndDecodesAgreeWithTheReference) {
  for (int32_t head_dim : kHeadDims) {
    for (int32_t window : windows_for(head_dim)) {
      make_cache(head_dim, window);
      for (int32_t group : {1, 4}) {
        SCOPED_TRACE(::testing::Message()
                     << "head_dim " << head_dim << ", window " << window << ", group " << group);
        choose_group(group);
        CacheRows rows;
        for (int32_t table = 0; table < int32_t(std::size(kContexts)) - 1; ++table) {
          const CacheRows some = run_around(table, 1 + random().below(20));
          for (int32_t r = 0; r < some.count(); ++r) rows.add(table, some.positions[size_t(r)]);
        }
        const int32_t longest = int32_t(std::size(kContexts)) - 1;
        rows.add(longest, kContexts[longest] - 1);
        EXPECT_TRUE(near(run(rows),
                         reference_attention(shape(), sequences_, rows, queries_of(rows)),
                         tolerance().attention));
      }
    }
  }
}

// Of so many positions the partial results find no room at once: they are merged in rounds.
TEST_P(CudaAttentionTest, VeryLongContexts) {
  contexts_ = {66000, 33000, 700};
  for (int32_t head_dim : {64, 128}) {
    make_cache(head_dim, 0);
    for (int32_t group : {1, 4, 16}) {
      SCOPED_TRACE(::testing::Message() << "head_dim " << head_dim << ", group " << group);
      choose_group(group);
      const auto alone = each_alone();
      CacheRows last;
      std::vector<float> got;
      for (int32_t table = 0; table < tables(); ++table) {
        last.add(table, contexts_[size_t(table)] - 1);
        got.insert(got.end(), alone[size_t(table)].begin(), alone[size_t(table)].end());
      }
      EXPECT_TRUE(near(got, reference_attention(shape(), sequences_, last, queries_of(last)),
                       tolerance().attention));
      for (int32_t table = 0; table < tables(); ++table) {
        for (int32_t count : {3, 17}) {
          const CacheRows rows = run_around(table, count);
          expect_alone(rows, run(rows), alone);
        }
      }
      for (int32_t others : kOthers) {
        const CacheRows rows = mixed(others);
        expect_alone(rows, run(rows), alone);
      }
    }
  }
}

TINYLOOP_ON_CUDA(CudaAttentionTest);

}  // namespace
}  // namespace tinyloop::testing
