// The kernels of tile_product.h for one type of tiles. Each type has a source file of its own
// (product_q4_0.cu …): they take long to compile, and do so side by side.
#pragma once

#include "kernels/cuda/tile_product.h"
#include "kernels/cuda/wide_cut.h"

namespace tinyloop::kernels {

template <WeightType kType>
struct ProductKernels {
  // Up to 16 rows, which fit into shared memory.
  static void launch_narrow(CudaContext& cuda, const ProductArgs& args, const NarrowShape& shape);
  // Plain rows of x, without an index; on compute capability 9.0.
  static void launch_wide(CudaContext& cuda, const ProductArgs& args, const RowView& x,
                          const WideCut& cut);
};

extern template struct ProductKernels<WeightType::q4_0>;
extern template struct ProductKernels<WeightType::q4_1>;
extern template struct ProductKernels<WeightType::q8_0>;
extern template struct ProductKernels<WeightType::f16>;

}  // namespace tinyloop::kernels
