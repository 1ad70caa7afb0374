// What product_kernels.h declares, for the source file of each type to instantiate.
#pragma once

#include "base/check.h"
#include "kernels/cuda/narrow_product.cuh"
#include "kernels/cuda/product_kernels.h"
#include "kernels/cuda/wide_product.cuh"

namespace tinyloop::kernels {

template <WeightType kType>
void ProductKernels<kType>::launch_narrow(CudaContext& cuda, const ProductArgs& product,
                                          const NarrowShape& shape) {
  TINYLOOP_CHECK(shape.bytes <= cuda.shared_limit());
  ProductArgs args = product;
  args.ring = shape.ring;
  args.ring_bytes = int32_t(shape.ring_bytes);
  const LaunchShape launch{unsigned(shape.blocks), unsigned(shape.sets * kSetThreads),
                           uint32_t(shape.bytes)};
  with_end(args.end, [&](auto e) {
    constexpr ProductEnd kEnd = decltype(e)::value;
    if (args.rows <= 8) {
      cuda.launch(narrow_kernel<kType, 1, kEnd>, launch, args);
    } else {
      cuda.launch(narrow_kernel<kType, 2, kEnd>, launch, args);
    }
  });
}

template <WeightType kType, int kTokens, bool kSplit>
void launch_wide_blocks(CudaContext& cuda, const ProductArgs& product, const RowView& x) {
  using Shape = WideShape<kType, kTokens, kSplit>;
  auto args = argument_of<WideArgs>();
  args.rows = row_tensor_map(x, product.rows, product.cols, kTokens);
  args.product = product;
  const auto row_blocks = unsigned((product.rows + kTokens - 1) / kTokens);
  const auto units = unsigned(product.units);
  const dim3 grid = kSplit ? dim3{units * kProductGroups, row_blocks} : dim3{row_blocks, units};
  cuda.launch(wide_kernel<kType, kTokens, kSplit>,
              {grid, kWideBlockThreads, uint32_t(Shape::kLaunchBytes), kSplit ? kProductGroups : 1},
              args, Shape::kStartRegisters);
}

template <WeightType kType>
void ProductKernels<kType>::launch_wide(CudaContext& cuda, const ProductArgs& args,
                                        const RowView& x, const WideCut& cut) {
  switch (cut.tokens) {
    case 32:
      return cut.split ? launch_wide_blocks<kType, 32, true>(cuda, args, x)
                       : launch_wide_blocks<kType, 32, false>(cuda, args, x);
    case 64:
      return cut.split ? launch_wide_blocks<kType, 64, true>(cuda, args, x)
                       : launch_wide_blocks<kType, 64, false>(cuda, args, x);
    default:
      TINYLOOP_CHECK(cut.tokens == 128 && !cut.split);
      return launch_wide_blocks<kType, 128, false>(cuda, args, x);
  }
}

}  // namespace tinyloop::kernels
