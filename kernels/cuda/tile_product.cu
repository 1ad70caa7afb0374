#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/gemm_product.h"
#include "kernels/cuda/plain_rows.h"
#include "kernels/cuda/product_kernels.h"
#include "kernels/cuda/row_norm.cuh"
#include "kernels/cuda/wide_shape.cuh"

namespace tinyloop::kernels {

namespace {

// Sets where each part's units begin: `tiles` row tiles make one.
void number_units(ProductArgs& args, int32_t tiles) {
  args.units = 0;
  for (int p = 0; p < args.part_count; ++p) {
    args.parts[p].first_unit = args.units;
    args.units += (args.parts[p].weights.row_tiles + tiles - 1) / tiles;
  }
  // Gate and up go together.
  if (args.end == ProductEnd::swiglu) args.units = args.parts[1].first_unit;
}

NarrowDevice narrow_device(const CudaContext& cuda) {
  return {cuda.sm_count(), cuda.shared_limit()};
}
NarrowProduct narrow_product(const ProductArgs& args, WeightType type) {
  return {tile_type(type), args.end, args.depth, args.units};
}

void launch_narrow(CudaContext& cuda, WeightType type, const ProductArgs& args,
                   const NarrowShape& shape) {
  with_tile_type(
      type, [&](auto t) { ProductKernels<decltype(t)::value>::launch_narrow(cuda, args, shape); });
}

// Fewer rows a block, then k split over the blocks of a cluster, where there would be too few
// blocks for the device.
//
// A block of 64 rows works about 256 cycles a tile (the tensor cores), of 32 rows little less (the
// decoding). With blocks for three quarters of the multiprocessors at most a quarter of that is
// lost; to split such a product would cost more: eight times the blocks, each with an exchange of
// 64 x 128 sums. Split products of up to 128 rows take blocks of 64: two to a multiprocessor, which
// of 128 rows there could not be.
void launch_wide_product(CudaContext& cuda, WeightType type, ProductArgs args, const RowView& x) {
  number_units(args,
               (args.end == ProductEnd::swiglu ? kGroupOutputs : kWideOutputs) / kTileOutputs);
  const auto blocks = [&](int32_t tokens) {
    return args.units * ((args.rows + tokens - 1) / tokens);
  };
  const auto fills = [&](int32_t count) { return count * 4 >= cuda.sm_count() * 3; };
  const bool split = args.rows <= 128 && !fills(blocks(64));
  WideCut cut{128, split};
  if (args.rows <= 32) {
    cut.tokens = 32;
  } else if (args.rows <= 64 || split || !fills(blocks(128))) {
    cut.tokens = 64;
  }
  with_tile_type(
      type, [&](auto t) { ProductKernels<decltype(t)::value>::launch_wide(cuda, args, x, cut); });
}

// Whether the narrow kernel can norm the rows as it reads them: each block does it anew, which is
// cheaper than a launch.
bool norms_on_the_way(const ProductArgs& args, const RmsNormArgs& norm) {
  const int32_t group_cols = (args.depth + kProductGroups - 1) / kProductGroups * kTileDepth;
  return takes_norm(args.end) && args.rows <= kNarrowRows && norm.groups == 1 &&
         is_aligned_f32(norm.x) && args.cols % 4 == 0 && group_cols <= kNormedQuads * kNormStride;
}

// Up to as many rows as one launch takes; units are numbered by row tiles.
void launch_rows(CudaContext& cuda, WeightType type, ProductArgs args, const ProductInput& input) {
  const NarrowShape narrow =
      narrow_shape(narrow_device(cuda), narrow_product(args, type), args.rows);
  const bool fits = narrow.bytes <= cuda.shared_limit();
  if (input.norm && fits && norms_on_the_way(args, *input.norm)) {
    args.x = device_rows(input.norm->x);
    args.norm_weight = input.norm->weight;
    args.eps = input.norm->eps;
    return launch_narrow(cuda, type, args, narrow);
  }
  if (input.norm) rms_norm_cuda(cuda, *input.norm);
  // More rows than the narrow kernel takes, or such as it cannot take.
  const bool wide = args.rows > kNarrowRows || (cuda.has_warp_groups() && !fits);
  RowView x = input.x;
  if ((wide && x.index) || !is_plain(x, args.cols)) {
    const PlainCopy copy{x, args.rows, args.cols, args.depth * kTileDepth};
    x = plain_copy(cuda, copy, cuda.workspace(copy.bytes()));
    args.cols = x.stride;
  }
  args.x = device_rows(x);
  wide ? launch_wide_product(cuda, type, args, x) : launch_narrow(cuda, type, args, narrow);
}

// Rows that one launch takes: all where there is the wide kernel, and enough of them or such as the
// narrow one cannot take; else as many as that one's shared memory holds.
int32_t most_rows(const CudaContext& cuda, const ProductArgs& args, WeightType type, int32_t rows) {
  if (cuda.has_warp_groups() && rows > kNarrowRows) return rows;
  const int32_t most = narrow_rows(narrow_device(cuda), narrow_product(args, type));
  TINYLOOP_CHECK(most > 0 || cuda.has_warp_groups());
  return most > 0 ? most : rows;
}

RmsNormArgs from_row(const RmsNormArgs& norm, int32_t row, int32_t rows) {
  RmsNormArgs part = norm;
  part.x = norm.x.from_row(row);
  part.y = norm.y.from_row(row);
  part.rows = rows;
  return part;
}

}  // namespace

ProductArgs product_args(CudaContext& cuda, std::span<const ProductLayer> layers,
                         const ProductOutcome& outcome) {
  TINYLOOP_CHECK(!layers.empty() && layers.size() <= size_t{ProductArgs::kMostParts});
  const WeightMatrix& first = *layers[0].weights;
  auto args = argument_of<ProductArgs>();
  args.part_count = int32_t(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const WeightMatrix& w = *layers[i].weights;
    TINYLOOP_CHECK(w.layout == WeightLayout::tiles && w.cols == first.cols);
    TINYLOOP_CHECK(tile_type(w.type) == tile_type(first.type));
    TINYLOOP_CHECK(outcome.end != ProductEnd::add || layers[i].y.type == ScalarType::f32);
    args.parts[i].weights = tiled_matrix(w);
  }
  if (outcome.qkv) {
    args.cache = device_pages(outcome.qkv->cache);
    args.cos_sin = reinterpret_cast<const float2*>(outcome.qkv->cos_sin);
  }
  args.counters = cuda.counters();
  args.cols = first.cols;
  args.depth = depth_tiles(first.cols);
  args.end = outcome.end;
  args.softcap = outcome.softcap;
  return args;
}

void take_rows(ProductArgs& args, std::span<const ProductLayer> layers,
               const ProductOutcome& outcome, int32_t row, int32_t rows) {
  args.rows = rows;
  for (size_t i = 0; i < layers.size(); ++i) {
    args.parts[i].y = device_rows(layers[i].y.from_row(row));
  }
  if (!outcome.qkv) return;
  args.cache.row_table = outcome.qkv->cache.row_table + row;
  args.cache.positions = outcome.qkv->cache.positions + row;
}

void launch_product(CudaContext& cuda, std::span<const ProductLayer> layers,
                    const ProductInput& input, const ProductOutcome& outcome) {
  TINYLOOP_CHECK(input.x.type == ScalarType::f16 || input.x.type == ScalarType::f32);
  if (takes_gemm(cuda, layers, input, outcome)) {
    return launch_gemm_product(cuda, layers, input, outcome);
  }
  ProductArgs args = product_args(cuda, layers, outcome);
  const WeightType type = layers[0].weights->type;
  number_units(args, 1);
  const int32_t most = most_rows(cuda, args, type, input.rows);
  for (int32_t row = 0; row < input.rows; row += most) {
    take_rows(args, layers, outcome, row, std::min(most, input.rows - row));
    RmsNormArgs norm;
    if (input.norm) norm = from_row(*input.norm, row, args.rows);
    launch_rows(cuda, type, args, {input.x.from_row(row), args.rows, input.norm ? &norm : nullptr});
  }
}

}  // namespace tinyloop::kernels
