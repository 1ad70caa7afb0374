// Attention over paged caches in which everything a row may not read is a NaN or a null page.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/support/op_cache.h"
#include "tests/support/op_test.h"
#include "tests/support/quantise.h"

namespace tinyloop::testing {
namespace {

using kernels::ScalarType;
using Sequence = CachedSequence;
using Shape = AttentionShape;

constexpr Shape kShapes[] = {{6, 3, 34}, {5, 1, 64},  {4, 4, 2},  {2, 1, 96},
                             {8, 2, 24}, {3, 3, 128}, {4, 2, 256}};
constexpr int32_t kContexts[] = {1, 15, 16, 17, 255, 256, 257, 1023};
constexpr int32_t kWindows[] = {0, 1, 16, 17, 300};

class AttentionTest : public OpTest {
 protected:
  void SetUp() override {
    OpTest::SetUp();
    if (!IsSkipped()) type_ = cache_types().front();
  }

  // The CPU's ops take caches of either type, whatever its mode.
  std::vector<ScalarType> cache_types() {
    if (is_cuda()) return {ScalarType::f16};
    return {ScalarType::f32, ScalarType::f16};
  }

  Sequence sequence(const Shape& shape, int32_t context, int32_t window) {
    return random_sequence(type_, shape, context, window, random());
  }

  // Attention of rows (table, position) with q[rows][heads · head_dim].
  std::vector<float> run(kernels::Backend& on, const Shape& shape,
                         const std::vector<Sequence>& sequences, const std::vector<int32_t>& tables,
                         const std::vector<int32_t>& positions, const std::vector<float>& q,
                         RowLayout layout = RowLayout::dense) {
    std::vector<int32_t> first(sequences.size(), 1 << 30);
    for (size_t r = 0; r < tables.size(); ++r) {
      first[size_t(tables[r])] = std::min(first[size_t(tables[r])], positions[r]);
    }
    for (size_t s = 0; s < first.size(); ++s)
      first[s] = std::min(first[s], sequences[s].context - 1);
    const OpCache cache(on, type_, shape, sequences, first, random());
    const DeviceCacheRows cache_rows(on, {tables, positions}, shape.heads / shape.kv_heads);
    const auto rows = int32_t(tables.size());
    const int32_t cols = shape.heads * shape.head_dim;
    const OpMatrix in(on, rows, cols, layout, random(), q);
    const OpMatrix out(on, rows, cols, layout, random());
    on.attention({in.view(), out.view(), cache.view(cache_rows), rows, shape.heads});
    EXPECT_TRUE(out.untouched());
    return out.values();
  }

  Expected reference(const Shape& shape, const std::vector<Sequence>& sequences,
                     const std::vector<int32_t>& tables, const std::vector<int32_t>& positions,
                     const std::vector<float>& q) {
    return reference_attention(shape, sequences, {tables, positions}, operands(backend(), q));
  }

  std::vector<float> queries(const Shape& shape, size_t rows) {
    return random().values(rows * size_t(shape.heads) * size_t(shape.head_dim), 2.0f);
  }

  ScalarType type_ = ScalarType::f32;  // of the cache
};

// The last row of every context under every window, in one ragged batch.
TEST_P(AttentionTest, EveryContextAndWindow) {
  for (ScalarType type : cache_types()) {
    type_ = type;
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(::testing::Message() << "heads " << shape.heads << "/" << shape.kv_heads
                                        << ", head_dim " << shape.head_dim);
      std::vector<Sequence> sequences;
      std::vector<int32_t> tables, positions;
      for (int32_t context : kContexts) {
        for (int32_t window : kWindows) {
          tables.push_back(int32_t(sequences.size()));
          positions.push_back(context - 1);
          sequences.push_back(sequence(shape, context, window));
        }
      }
      const auto q = queries(shape, tables.size());
      const Expected want = reference(shape, sequences, tables, positions, q);
      for (RowLayout layout : {RowLayout::dense, RowLayout::scattered}) {
        EXPECT_TRUE(near(run(backend(), shape, sequences, tables, positions, q, layout), want,
                         tolerance().attention));
      }
    }
  }
}

// Rows of a prefill see what lies before them; beside them, decoding rows of other sequences.
TEST_P(AttentionTest, PrefillRowsAreCausal) {
  for (ScalarType type : cache_types()) {
    type_ = type;
    const Shape shape{6, 3, 34};
    const std::vector<Sequence> sequences = {sequence(shape, 300, 0), sequence(shape, 290, 17),
                                             sequence(shape, 40, 0)};
    std::vector<int32_t> tables = {2}, positions = {39};
    for (int32_t p = 240; p < 300; ++p) tables.push_back(0), positions.push_back(p);
    for (int32_t p = 200; p < 290; p += 9) tables.push_back(1), positions.push_back(p);
    const auto q = queries(shape, tables.size());
    EXPECT_TRUE(near(run(backend(), shape, sequences, tables, positions, q),
                     reference(shape, sequences, tables, positions, q), tolerance().attention));
  }
}

// Two rows of the same sequence at the same position, far apart in scores: no overflow, no NaN.
TEST_P(AttentionTest, LargeScoresStayFinite) {
  const Shape shape{2, 1, 64};
  std::vector<Sequence> sequences = {sequence(shape, 600, 0)};
  for (float& k : sequences[0].keys) k = stored(type_, k * 40.0f);
  const auto q = queries(shape, 2);
  const auto got = run(backend(), shape, sequences, {0, 0}, {599, 300}, q);
  Expected want = reference(shape, sequences, {0, 0}, {599, 300}, q);
  for (double& size : want.magnitude) size = 2.0;  // scores in the hundreds carry larger errors
  EXPECT_TRUE(near(got, want, std::max(1e-3, 4.0 * tolerance().attention)));
}

TEST_P(AttentionTest, ARowHasTheSameBitsAloneInABatchAndPermuted) {
  for (ScalarType type : cache_types()) {
    type_ = type;
    for (const Shape& shape : {Shape{6, 3, 34}, Shape{5, 1, 64}}) {
      const std::vector<Sequence> sequences = {sequence(shape, 600, 0), sequence(shape, 530, 300),
                                               sequence(shape, 17, 0)};
      const std::vector<int32_t> tables = {0, 1, 2, 0, 1, 0},
                                 positions = {599, 529, 16, 255, 300, 256};
      const int32_t cols = shape.heads * shape.head_dim;
      const auto q = queries(shape, tables.size());
      const auto all = run(backend(), shape, sequences, tables, positions, q);
      const auto order = random().distinct(6, 6);
      std::vector<int32_t> shuffled_tables, shuffled_positions;
      std::vector<float> shuffled_q;
      for (int32_t row : order) {
        const auto one = row_of(q, row, cols);
        const auto r = size_t(row);
        shuffled_tables.push_back(tables[r]);
        shuffled_positions.push_back(positions[r]);
        shuffled_q.insert(shuffled_q.end(), one.begin(), one.end());
        EXPECT_TRUE(same_bits(row_of(all, row, cols),
                              run(backend(), shape, sequences, {tables[r]}, {positions[r]}, one)));
      }
      const auto shuffled = run(backend(), shape, sequences, shuffled_tables, shuffled_positions,
                                shuffled_q, RowLayout::scattered);
      for (int32_t i = 0; i < 6; ++i) {
        EXPECT_TRUE(same_bits(row_of(all, order[size_t(i)], cols), row_of(shuffled, i, cols)));
      }
    }
  }
}

// Consecutive rows are worked on together; each still sees its own positions alone. What is not a
// number at a later row's position does not reach an earlier row.
TEST_P(AttentionTest, ConsecutiveRowsKeepApart) {
  constexpr int32_t kFirst = 250, kRows = 19, kBad = 262;
  // Tensor cores multiply the values of whole blocks of 64 positions, with weights of 0 where a row
  // does not attend: 0 · NaN is NaN. The engine's values are finite where its model is.
  const auto value_reaches = [&](int32_t position) {
    return position >= kBad || (is_cuda() && position / 64 == kBad / 64);
  };
  const auto with_bad = [](const Sequence& clean, const Shape& shape,
                           std::vector<float> Sequence::*what) {
    Sequence bad = clean;
    for (int32_t head = 0; head < shape.kv_heads; ++head) {
      const auto at = ptrdiff_t((head * bad.context + kBad) * shape.head_dim);
      std::fill_n((bad.*what).begin() + at, shape.head_dim, poison());
    }
    return bad;
  };
  std::vector<int32_t> positions;
  for (int32_t r = 0; r < kRows; ++r) positions.push_back(kFirst + r);
  const std::vector<int32_t> tables(kRows, 0);
  for (ScalarType type : cache_types()) {
    type_ = type;
    for (const Shape& shape : {Shape{6, 3, 34}, Shape{12, 1, 64}, Shape{3, 3, 7}}) {
      for (int32_t window : {0, 3, 17, 255}) {
        SCOPED_TRACE(::testing::Message()
                     << "heads " << shape.heads << "/" << shape.kv_heads << ", window " << window);
        const Sequence clean = sequence(shape, kFirst + kRows, window);
        const Sequence bad_keys = with_bad(clean, shape, &Sequence::keys);
        const Sequence bad_values = with_bad(clean, shape, &Sequence::values);
        const auto q = queries(shape, kRows);
        const auto together = run(backend(), shape, {clean}, tables, positions, q);
        const auto beside_keys = run(backend(), shape, {bad_keys}, tables, positions, q);
        const auto beside_values = run(backend(), shape, {bad_values}, tables, positions, q);
        const int32_t cols = shape.heads * shape.head_dim;
        for (int32_t r = 0; r < kRows; ++r) {
          const int32_t position = kFirst + r;
          const auto want = run(backend(), shape, {clean}, {0}, {position}, row_of(q, r, cols));
          EXPECT_TRUE(same_bits(want, row_of(together, r, cols))) << "row " << r;
          if (position < kBad) {
            EXPECT_TRUE(same_bits(want, row_of(beside_keys, r, cols))) << "row " << r;
          }
          if (!value_reaches(position)) {
            EXPECT_TRUE(same_bits(want, row_of(beside_values, r, cols))) << "row " << r;
          }
        }
      }
    }
  }
}

TEST_P(AttentionTest, ThreadsChangeNoBit) {
  if (is_cuda()) GTEST_SKIP() << "threads are the CPU's";
  const Shape shape{8, 2, 24};
  const std::vector<Sequence> sequences = {sequence(shape, 500, 0)};
  std::vector<int32_t> tables, positions;
  for (int32_t p = 450; p < 500; ++p) tables.push_back(0), positions.push_back(p);
  const auto q = queries(shape, tables.size());
  const auto want = run(backend(), shape, sequences, tables, positions, q);
  for (int32_t threads : {1, 4}) {
    const auto other = backend_with(threads);
    EXPECT_TRUE(same_bits(want, run(*other, shape, sequences, tables, positions, q)));
  }
}

TEST_P(AttentionTest, AppendedRowsAreAttended) {
  for (ScalarType type : cache_types()) {
    type_ = type;
    const Shape shape{4, 2, 10};
    constexpr int32_t kContext = 37;
    const int32_t cols = shape.kv_heads * shape.head_dim;
    const std::vector<Sequence> sequences = {sequence(shape, kContext, 0)};
    OpRandom pages(kSeed);
    OpRandom same_pages(kSeed);
    const OpCache want(backend(), type_, shape, sequences, {kContext - 1}, pages);
    const OpCache got(backend(), type_, shape, {Sequence{kContext, 0, {}, {}}}, {kContext - 1},
                      same_pages);

    std::vector<float> k, v;
    std::vector<int32_t> positions = random().distinct(kContext, kContext);
    for (int32_t p : positions) {
      for (int32_t head = 0; head < shape.kv_heads; ++head) {
        const auto from = ptrdiff_t((head * kContext + p) * shape.head_dim);
        k.insert(k.end(), sequences[0].keys.begin() + from,
                 sequences[0].keys.begin() + from + shape.head_dim);
        v.insert(v.end(), sequences[0].values.begin() + from,
                 sequences[0].values.begin() + from + shape.head_dim);
      }
    }
    const DeviceCacheRows rows(backend(), {std::vector<int32_t>(kContext, 0), positions}, 2);
    const OpMatrix keys(backend(), kContext, cols, RowLayout::scattered, random(), k);
    const OpMatrix values(backend(), kContext, cols, RowLayout::scattered, random(), v);
    backend().kv_append({keys.view(), values.view(), got.view(rows), kContext});
    backend().synchronise();
    EXPECT_EQ(got.storage(), want.storage());
  }
}

// A key that is not a number makes the result so.
TEST_P(AttentionTest, NaNIsNotLost) {
  const Shape shape{2, 1, 16};
  Sequence s = sequence(shape, 300, 0);
  std::fill_n(s.keys.begin() + 40 * shape.head_dim, shape.head_dim, poison());
  const auto got = run(backend(), shape, {s}, {0, 0}, {299, 39}, queries(shape, 2));
  const auto values = size_t(shape.heads * shape.head_dim);
  for (size_t i = 0; i < values; ++i) {
    EXPECT_TRUE(std::isnan(got[i]));
    EXPECT_FALSE(std::isnan(got[values + i])) << "the row before it";
  }
}

// FP16 has room for 65,504.
TEST_P(AttentionTest, LargeNumbersAreStoredAsTheLargest) {
  constexpr int32_t kDim = 11;
  const kernels::KvLayout layout = cache_layout(backend(), ScalarType::f16, 1, kDim);
  const DeviceArray<std::byte> page(backend(), std::vector<std::byte>(layout.layer_bytes()));
  const DeviceArray<std::byte*> pages(backend(), std::vector<std::byte*>{page.data()});
  const DeviceArray<int32_t> zero(backend(), std::vector<int32_t>{0});
  const DeviceArray<int32_t> position(backend(), std::vector<int32_t>{5});
  std::vector<float> values(kDim, 1e30f);
  values[3] = -1e9f;
  values[9] = poison();
  const OpMatrix rows(backend(), 1, kDim, RowLayout::dense, random(), values);
  const kernels::KvView view{layout,      0,           pages.data(),    zero.data(),
                             zero.data(), zero.data(), position.data(), {}};
  backend().kv_append({rows.view(), rows.view(), view, 1});
  backend().synchronise();
  const std::vector<std::byte> bytes = page.read();
  for (int32_t d = 0; d < kDim; ++d) {
    for (size_t index : {layout.key_index(0, 5, d), layout.value_index(0, 5, d)}) {
      uint16_t half;
      std::memcpy(&half, &bytes[index * 2], 2);
      if (d == 9) {
        EXPECT_TRUE(std::isnan(from_half(half)));
      } else {
        EXPECT_EQ(from_half(half), d == 3 ? -65504.0f : 65504.0f);
      }
    }
  }
}

TEST_P(AttentionTest, NumbersAreRoundedToTheNearest) {
  const kernels::KvLayout layout = cache_layout(backend(), ScalarType::f16, 1, 4096);
  const DeviceArray<std::byte> page(backend(), std::vector<std::byte>(layout.layer_bytes()));
  const DeviceArray<std::byte*> pages(backend(), std::vector<std::byte*>{page.data()});
  const DeviceArray<int32_t> zero(backend(), std::vector<int32_t>{0});
  std::vector<float> values;
  for (int32_t i = 0; i < layout.head_dim; ++i) {
    values.push_back(std::ldexp(random().value(), i % 44 - 28));  // subnormals and zeros too
  }
  values[7] = from_half(0x3C01) + std::ldexp(1.0f, -11);  // a tie
  const OpMatrix rows(backend(), 1, layout.head_dim, RowLayout::dense, random(), values);
  backend().kv_append(
      {rows.view(),
       rows.view(),
       {layout, 0, pages.data(), zero.data(), zero.data(), zero.data(), zero.data(), {}},
       1});
  backend().synchronise();
  const std::vector<std::byte> bytes = page.read();
  for (int32_t d = 0; d < layout.head_dim; ++d) {
    uint16_t half;
    std::memcpy(&half, &bytes[layout.value_index(0, 0, d) * 2], 2);
    ASSERT_EQ(half, to_half(values[size_t(d)])) << values[size_t(d)];
  }
}

TINYLOOP_ON_EVERY_DEVICE(AttentionTest);

}  // namespace
}  // namespace tinyloop::testing
