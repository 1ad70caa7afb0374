// How narrow products are cut for devices with much and with little shared memory. No device is
// needed.
#include "kernels/cuda/narrow_shape.h"

#include <gtest/gtest.h>

namespace tinyloop::testing {
namespace {

using namespace kernels;

// Of a block, less what kernels have of static shared memory: compute capability 8.6, 8.0, 9.0.
constexpr size_t kShared[] = {95u << 10, 159u << 10, 223u << 10};
constexpr size_t kMostShared = 223u << 10;
constexpr int kMultiprocessors = 132;
constexpr WeightType kTypes[] = {WeightType::q4_0, WeightType::q4_1, WeightType::q8_0,
                                 WeightType::f16};
constexpr ProductEnd kEnds[] = {ProductEnd::store, ProductEnd::add, ProductEnd::swiglu,
                                ProductEnd::relu2, ProductEnd::qkv};
constexpr int kMostDepth = 16384 / kTileDepth;
constexpr int kUnits[] = {1, 100, kMultiprocessors, kMultiprocessors + 1, 1000, 10000};

template <class Check>
void for_each_product(int most_depth, Check check) {
  for (size_t shared : kShared) {
    for (WeightType type : kTypes) {
      for (ProductEnd end : kEnds) {
        for (int units : kUnits) {
          for (int depth = 1; depth <= most_depth; ++depth) {
            SCOPED_TRACE(::testing::Message()
                         << shared << " bytes, type " << int(type) << ", end " << int(end) << ", "
                         << units << " units, " << depth << " tiles of k");
            check(NarrowDevice{kMultiprocessors, shared}, NarrowProduct{type, end, depth, units});
            if (::testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

// What the kernel takes for granted.
void expect_sound(const NarrowProduct& product, const NarrowShape& shape, int rows) {
  const int matrices = narrow_matrices(product.end);
  const size_t stage = size_t(shape.ring.tiles * matrices) * tile_bytes(product.type);
  EXPECT_GE(shape.ring.tiles, 1);
  EXPECT_LE(shape.ring.tiles * matrices, kRingTiles);
  EXPECT_GE(shape.ring.stages, 1);
  EXPECT_LE(shape.ring.stages, kRingStages);
  EXPECT_EQ(shape.ring_bytes, size_t(shape.ring.stages) * stage);
  EXPECT_GE(shape.sets, 1);
  EXPECT_LE(shape.sets, kMostSets);
  EXPECT_GE(shape.blocks, 1);
  EXPECT_LE(shape.blocks, std::min(product.units, kMultiprocessors));
  const size_t row_bytes = size_t(rows) * size_t(product.depth * kTileDepth + kRowPad) * 2;
  EXPECT_EQ(row_bytes % 16, 0u);
  EXPECT_EQ(shape.ring_bytes % 64, 0u);
  EXPECT_EQ(shape.bytes, size_t(shape.sets) * (kProductGroups * shape.ring_bytes +
                                               size_t(sum_floats(rows, matrices)) * sizeof(float)) +
                             row_bytes);
}

TEST(NarrowShape, SomeRowsFitOfEveryProduct) {
  for_each_product(kMostDepth, [](const NarrowDevice& device, const NarrowProduct& product) {
    const int most = narrow_rows(device, product);
    EXPECT_GE(most, 1);
    EXPECT_LE(most, kNarrowRows);
    for (int rows = 1; rows <= kNarrowRows; ++rows) {
      const NarrowShape shape = narrow_shape(device, product, rows);
      expect_sound(product, shape, rows);
      EXPECT_TRUE(rows > most || shape.bytes <= device.shared_limit) << rows << " rows";
    }
  });
}

// Sixteen rows of 4096 FP16 values, the gate's and the up matrix's tiles beside them: too much for
// two sets of warps.
TEST(NarrowShape, OneSetWhereTwoDoNotFit) {
  const NarrowDevice device{kMultiprocessors, kMostShared};
  const NarrowProduct product{WeightType::f16, ProductEnd::swiglu, 4096 / kTileDepth, 1000};
  EXPECT_GT(narrow_shape(device, product, 16, kMostSets).bytes, device.shared_limit);
  EXPECT_EQ(narrow_shape(device, product, 16).sets, 1);
  EXPECT_EQ(narrow_rows(device, product), 16);
}

TEST(NarrowShape, TwoSetsWhereThereIsWorkForThem) {
  for_each_product(1024 / kTileDepth, [](const NarrowDevice& device, const NarrowProduct& product) {
    const int want = product.units > kMultiprocessors ? 2 : 1;
    EXPECT_EQ(narrow_shape(device, product, 1).sets, want);
  });
}

// The caller's other ways: fewer rows a launch; the wide kernel, where there is one.
TEST(NarrowShape, SaysWhereFewerRowsFitOrNone) {
  const NarrowDevice device{kMultiprocessors, kMostShared};
  NarrowProduct product{WeightType::q4_1, ProductEnd::store, 16384 / kTileDepth, 1000};
  EXPECT_EQ(narrow_rows(device, product), 4);
  product.depth = 131072 / kTileDepth;
  EXPECT_EQ(narrow_rows(device, product), 0);
}

}  // namespace
}  // namespace tinyloop::testing
