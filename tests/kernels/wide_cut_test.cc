// How wide products are cut: what was fastest where it has been measured. No device is needed.
#include "kernels/cuda/wide_cut.h"

#include <gtest/gtest.h>

namespace tinyloop::testing {
namespace {

using kernels::kTileDepth;
using kernels::WeightType;
using kernels::wide_cut;
using kernels::WideCut;
using kernels::WideProduct;

constexpr int kMultiprocessors = 132;

TEST(WideCut, IsOneThatThereIsAKernelFor) {
  for (WeightType type : {WeightType::q4_0, WeightType::f16}) {
    for (int32_t units : {1, 16, 48, 100, 384, 5000}) {
      for (int32_t depth : {1, 16, 88, 1000}) {
        for (int32_t rows : {1, 17, 32, 33, 64, 65, 128, 129, 1000, 100000}) {
          const WideCut cut = wide_cut(kMultiprocessors, {type, units, depth, rows});
          EXPECT_TRUE(cut.tokens == 32 || cut.tokens == 64 || cut.tokens == 128);
          EXPECT_TRUE(!cut.split || cut.tokens <= kernels::kMostSplitTokens);
        }
      }
    }
  }
}

// Outputs of o and down, few: k is split. Of gate and up, many: it is not.
TEST(WideCut, SplitsWhereThereWouldBeFewBlocks) {
  for (int32_t rows : {17, 32, 64, 128}) {
    EXPECT_TRUE(wide_cut(kMultiprocessors, {WeightType::q4_0, 16, 32, rows}).split) << rows;
    EXPECT_TRUE(wide_cut(kMultiprocessors, {WeightType::q4_0, 16, 88, rows}).split) << rows;
    EXPECT_FALSE(wide_cut(kMultiprocessors, {WeightType::q4_0, 88, 32, rows}).split) << rows;
    EXPECT_FALSE(wide_cut(kMultiprocessors, {WeightType::f16, 104, 32, rows}).split) << rows;
  }
}

TEST(WideCut, TakesManyRowsTogetherWhereThereAreMany) {
  const WideProduct prompt{WeightType::q4_0, 88, 32, 2048};
  EXPECT_EQ(wide_cut(kMultiprocessors, prompt), (WideCut{128, false}));
}

}  // namespace
}  // namespace tinyloop::testing
