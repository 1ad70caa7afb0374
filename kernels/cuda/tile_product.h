// Products of tiled weights with rows, the core of linear, ffn_hidden and logits on the GPU.
//
// The order of every sum is fixed by the number of columns alone: k is cut into kProductGroups
// groups of whole tiles; a group's products are added up on the tensor cores, from 0, sixteen
// values of k at a time, in order; the groups' sums are added in order, in FP32. Which kernel runs,
// how many rows it takes at once and how the work is spread change none of that:
//
//   narrow  up to 16 rows: a set of 8 warps takes 16 outputs at a time, each warp one group
//
//   wide    more rows, on compute capability 9.0: a block takes 128 outputs and up to 128 rows,
//           group after group
//
//   split   where that would be few blocks: wide, with each group in a block of its own, of a
//           cluster of 8
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "kernels/cuda/device_tools.cuh"
#include "kernels/cuda/kv_device.cuh"
#include "kernels/cuda/narrow_shape.h"
#include "kernels/cuda/product_order.h"
#include "kernels/cuda/weight_tile.cuh"
#include "kernels/qkv.h"
#include "kernels/rms_norm.h"

namespace tinyloop::kernels {

// Calls f(std::integral_constant<ProductEnd, …>) for the end.
template <class F>
__host__ __device__ inline void with_end(ProductEnd end, F f) {
  switch (end) {
    case ProductEnd::store:
      return f(std::integral_constant<ProductEnd, ProductEnd::store>{});
    case ProductEnd::add:
      return f(std::integral_constant<ProductEnd, ProductEnd::add>{});
    case ProductEnd::swiglu:
      return f(std::integral_constant<ProductEnd, ProductEnd::swiglu>{});
    case ProductEnd::relu2:
      return f(std::integral_constant<ProductEnd, ProductEnd::relu2>{});
    case ProductEnd::qkv:
      return f(std::integral_constant<ProductEnd, ProductEnd::qkv>{});
  }
}

struct ProductPart {
  TiledMatrix weights;
  DeviceRows y;
  int32_t first_unit;  // of the blocks' units of work; see the launcher
  int32_t unused;
};

// The norm that reads what `add` writes next, to be folded into its product
// (kernels/cuda/row_norm.cuh). Null: there is none.
struct NextNorm {
  const float* weight;
  __half* rows;    // [rows][outputs], x · weight
  float* squares;  // [rows][square_pitch(outputs)]
  int32_t stride;  // of rows
  int32_t unused;
};

struct ProductArgs {
  static constexpr int kMostParts = 3;

  ProductPart parts[kMostParts];
  DeviceRows x;
  DevicePages cache;      // qkv
  const float2* cos_sin;  // qkv: kernels/rope.h
  const float* squares;   // of the rows' folded norm, whose factor the sums want; null: none
  NextNorm next;          // add
  DeviceCounters* counters;
  int32_t part_count;
  int32_t units;
  int32_t rows;
  int32_t cols;
  int32_t depth;       // tiles of k
  RingShape ring;      // narrow
  int32_t ring_bytes;  // narrow: of a warp
  ProductEnd end;
  float softcap;
  float eps;
  int32_t norm_cols;  // of a row whose squares there are
};
static_assert(sizeof(ProductArgs) % 8 == 0 &&
                  offsetof(ProductArgs, norm_cols) + 4 == sizeof(ProductArgs),
              "no padding: launches are compared by their bytes");

// Matrices of one tile type and one number of columns, all read by the same rows.
struct ProductLayer {
  const WeightMatrix* weights;
  RowView y;
};

struct ProductInput {
  RowView x;
  int32_t rows = 0;
  const RmsNormArgs* norm = nullptr;  // x is its y, and holds afterwards what it pleases
};

struct ProductOutcome {
  ProductEnd end = ProductEnd::store;
  float softcap = 0.0f;
  const QkvArgs* qkv = nullptr;
  const RmsNormArgs* next = nullptr;  // add: the norm to be taken of y, one that can be folded
};

void launch_product(CudaContext& cuda, std::span<const ProductLayer> layers,
                    const ProductInput& input, const ProductOutcome& outcome);
// Whether launch_product prepares `next`: mode fast does not.
bool prepares_next(const CudaContext& cuda, const ProductLayer& layer, int32_t rows,
                   const RmsNormArgs& next);

// All but the rows, and how the work is cut.
ProductArgs product_args(CudaContext& cuda, std::span<const ProductLayer> layers,
                         const ProductOutcome& outcome);
// `rows` rows from `row` on are to be computed; x is the caller's to set.
void take_rows(ProductArgs& args, std::span<const ProductLayer> layers,
               const ProductOutcome& outcome, int32_t row, int32_t rows);

}  // namespace tinyloop::kernels
