// Products of many rows by cuBLAS, for the fast mode: FP16 copies of the matrices, sums in FP32,
// then the same ends as those of tile_product.h. The order of the sums is the library's own and may
// depend on the number of rows.
#pragma once

#include "kernels/cuda/tile_product.h"

namespace tinyloop::kernels {

// Up to here products take the kernels of tile_product.h, in every mode to the same bits: their
// blocks hold up to 128 rows, so each weight is decoded once. Beyond, it is for every 128 rows.
inline constexpr int32_t kMostTiledRows = 128;

// Sums on their way to their ends, and rows on their way to the library, stand in the context's
// work space, as many rows at a time as fit into this. Small enough to stay in the second-level
// cache, large enough for 512 rows of twice 8192 outputs.
inline constexpr size_t kGemmScratchBytes = size_t{32} << 20;

bool takes_gemm(const CudaContext& cuda, std::span<const ProductLayer> layers,
                const ProductInput& input, const ProductOutcome& outcome);
// What launch_product does, where takes_gemm() is true.
void launch_gemm_product(CudaContext& cuda, std::span<const ProductLayer> layers,
                         const ProductInput& input, const ProductOutcome& outcome);

}  // namespace tinyloop::kernels
