// Ops that do the work of several: the same bits as those one after another.
#include "kernels/rope.h"
#include "tests/support/op_cache.h"
#include "tests/support/op_test.h"

namespace tinyloop::testing {
namespace {

using kernels::ScalarType;
using kernels::WeightType;

// Around the borders of 8, 16, 32, 64 and 128 rows, where other kernels take over.
constexpr int32_t kRowCounts[] = {1, 2, 7, 8, 9, 16, 17, 33, 64, 65, 130, 300};
constexpr RowLayout kLayouts[] = {RowLayout::dense, RowLayout::scattered};
constexpr float kEps = 1e-5f;

class CudaFusedTest : public OpTest {
 protected:
  OpMatrix matrix(int32_t rows, int32_t cols, RowLayout layout, ScalarType type) {
    return {backend(), rows, cols, layout, random(), type};
  }
  // Rows of the residual stream: dense ones are aligned to 16 bytes, scattered ones are not.
  OpMatrix residual(int32_t rows, int32_t cols, RowLayout layout) {
    const auto values = random().values(size_t(rows) * size_t(cols), 8.0f);
    return {backend(), rows, cols, layout, random(), values};
  }
};

// Types of the q, k and v matrices.
struct QkvTypes {
  WeightType q, k, v;
};
constexpr QkvTypes kQkvTypes[] = {
    {WeightType::q4_0, WeightType::q4_0, WeightType::q4_0},
    {WeightType::q4_1, WeightType::q4_1, WeightType::q4_1},
    {WeightType::q8_0, WeightType::q8_0, WeightType::q8_0},
    {WeightType::f16, WeightType::f32, WeightType::bf16},
    {WeightType::q4_1, WeightType::q4_1, WeightType::q8_0},
};
constexpr AttentionShape kShapes[] = {{4, 2, 16}, {9, 3, 64}, {2, 1, 34}, {3, 3, 128}, {2, 1, 256}};

// The matrices and tables of one attention layer.
struct QkvLayer {
  static constexpr int32_t kContext = 200;  // of each of two sequences

  QkvLayer(kernels::Backend& backend, const QkvTypes& types, const AttentionShape& of,
           int32_t width, OpRandom& random)
      : shape(of),
        cols(width),
        q(backend, types.q, of.heads * of.head_dim, width, random),
        k(backend, types.k, of.kv_heads * of.head_dim, width, random),
        v(backend, types.v, of.kv_heads * of.head_dim, width, random),
        norm(backend, random.values(size_t(width), 2.0f)),
        cos_sin(backend, rope_table(of.head_dim)) {}

  static std::vector<float> rope_table(int32_t head_dim) {
    std::vector<float> table(size_t(kContext) * size_t(head_dim));
    kernels::fill_rope_table(table.data(), kContext, head_dim, 10000.0f);
    return table;
  }

  AttentionShape shape;
  int32_t cols;
  OpWeights q, k, v;
  DeviceArray<float> norm, cos_sin;
};

class CudaQkvTest : public CudaFusedTest {
 protected:
  // Puts q into `q`; returns what the cache then holds.
  std::vector<std::byte> run(bool fused, const QkvLayer& layer, const DeviceCacheRows& rows,
                             const OpMatrix& x, const OpMatrix& q, int32_t count) {
    const AttentionShape& shape = layer.shape;
    const int32_t kv_cols = shape.kv_heads * shape.head_dim;
    OpRandom pages(kSeed);  // the same for both
    const CachedSequence empty{QkvLayer::kContext, 0, {}, {}};
    const OpCache cache(backend(), ScalarType::f16, shape, {empty, empty}, {0, 0}, pages);
    const OpMatrix normed = matrix(count, layer.cols, RowLayout::dense, ScalarType::f16);
    const OpMatrix k = matrix(count, kv_cols, RowLayout::dense, ScalarType::f32);
    const OpMatrix v = matrix(count, kv_cols, RowLayout::dense, ScalarType::f32);
    const kernels::RmsNormArgs norm{.x = x.view(),
                                    .y = normed.view(),
                                    .weight = layer.norm.data(),
                                    .rows = count,
                                    .cols = layer.cols,
                                    .eps = kEps};
    const kernels::LinearArgs layers[] = {{layer.q.matrix(), normed.view(), q.view(), count},
                                          {layer.k.matrix(), normed.view(), k.view(), count},
                                          {layer.v.matrix(), normed.view(), v.view(), count}};
    const kernels::KvView view = cache.view(rows);
    const float* table = layer.cos_sin.data();
    if (fused) {
      backend().qkv({norm, layers[0], layers[1], layers[2], view, table, shape.heads});
    } else {
      backend().rms_norm(norm);
      backend().linear_all(layers);
      backend().rope({q.view(), rows.positions(), table, count, shape.heads, shape.head_dim});
      backend().rope({k.view(), rows.positions(), table, count, shape.kv_heads, shape.head_dim});
      backend().kv_append({k.view(), v.view(), view, count});
    }
    EXPECT_TRUE(q.untouched());
    return cache.storage();
  }

  void check(const QkvLayer& layer, int32_t count, RowLayout layout) {
    CacheRows rows;
    for (int32_t place : random().distinct(count, 2 * QkvLayer::kContext)) {
      rows.add(place / QkvLayer::kContext, place % QkvLayer::kContext);
    }
    const AttentionShape& shape = layer.shape;
    const DeviceCacheRows device_rows(backend(), rows, shape.heads / shape.kv_heads);
    const OpMatrix x = residual(count, layer.cols, layout);
    const int32_t q_cols = shape.heads * shape.head_dim;
    const OpMatrix want = matrix(count, q_cols, RowLayout::dense, ScalarType::f32);
    const OpMatrix got = matrix(count, q_cols, RowLayout::scattered, ScalarType::f32);
    const auto want_cache = run(false, layer, device_rows, x, want, count);
    const auto got_cache = run(true, layer, device_rows, x, got, count);
    EXPECT_TRUE(same_bits(want.values(), got.values()));
    EXPECT_TRUE(want_cache == got_cache) << "the caches differ";
  }
};

TEST_P(CudaQkvTest, IsTheFiveOpsOneAfterAnother) {
  ASSERT_TRUE(backend().wants_qkv());
  for (const QkvTypes& types : kQkvTypes) {
    for (const AttentionShape& shape : kShapes) {
      for (int32_t cols : {96, 576, 1408}) {
        const QkvLayer layer(backend(), types, shape, cols, random());
        for (int32_t count : kRowCounts) {
          for (RowLayout layout : kLayouts) {
            SCOPED_TRACE(::testing::Message()
                         << weight_format(types.q).name << ", " << weight_format(types.v).name
                         << ", heads " << shape.heads << "/" << shape.kv_heads << ", head_dim "
                         << shape.head_dim << ", " << cols << " columns, " << count << " rows, "
                         << (layout == RowLayout::dense ? "dense" : "scattered"));
            check(layer, count, layout);
          }
        }
      }
    }
  }
}

class CudaNormedHiddenTest : public CudaFusedTest {
 protected:
  void check(const OpWeights& gate, const OpWeights& up, const OpMatrix& x, int32_t rows,
             const float* weight, kernels::FfnType type) {
    const int32_t cols = up.matrix().cols, ffn = up.matrix().rows;
    const OpMatrix normed = matrix(rows, cols, RowLayout::dense, ScalarType::f16);
    const OpMatrix want = matrix(rows, ffn, RowLayout::dense, ScalarType::f32);
    const OpMatrix got = matrix(rows, ffn, RowLayout::scattered, ScalarType::f32);
    const kernels::RmsNormArgs norm{.x = x.view(),
                                    .y = normed.view(),
                                    .weight = weight,
                                    .rows = rows,
                                    .cols = cols,
                                    .eps = kEps};
    kernels::FfnHiddenArgs hidden{.type = type,
                                  .gate = gate.matrix(),
                                  .up = up.matrix(),
                                  .x = normed.view(),
                                  .y = want.view(),
                                  .rows = rows};
    if (type == kernels::FfnType::relu2) hidden.gate = {};
    backend().rms_norm(norm);
    backend().ffn_hidden(hidden);
    hidden.y = got.view();
    backend().normed_ffn_hidden(norm, hidden);
    EXPECT_TRUE(same_bits(want.values(), got.values()));
    EXPECT_TRUE(got.untouched());
  }
};

TEST_P(CudaNormedHiddenTest, IsTheTwoOpsOneAfterAnother) {
  for (WeightType type : {WeightType::q4_0, WeightType::q4_1, WeightType::q8_0, WeightType::f16}) {
    for (int32_t cols : {32, 96, 576, 1408}) {
      const OpWeights gate(backend(), type, 150, cols, random());
      const OpWeights up(backend(), type, 150, cols, random());
      const DeviceArray<float> weight(backend(), random().values(size_t(cols), 2.0f));
      for (int32_t rows : kRowCounts) {
        for (RowLayout layout : kLayouts) {
          const OpMatrix x = residual(rows, cols, layout);
          for (auto ffn : {kernels::FfnType::swiglu, kernels::FfnType::relu2}) {
            SCOPED_TRACE(::testing::Message()
                         << weight_format(type).name << " " << cols << " columns, " << rows
                         << (ffn == kernels::FfnType::swiglu ? " rows, swiglu, " : " rows, relu2, ")
                         << (layout == RowLayout::dense ? "dense" : "scattered"));
            check(gate, up, x, rows, weight.data(), ffn);
          }
        }
      }
    }
  }
}

TINYLOOP_ON_CUDA(CudaQkvTest);
TINYLOOP_ON_CUDA(CudaNormedHiddenTest);

}  // namespace
}  // namespace tinyloop::testing
