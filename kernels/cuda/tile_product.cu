#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/gemm_product.h"
#include "kernels/cuda/plain_rows.h"
#include "kernels/cuda/product_kernels.h"
#include "kernels/cuda/row_squares.h"

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

void launch_wide_product(CudaContext& cuda, WeightType type, ProductArgs args, const RowView& x) {
  number_units(args,
               (args.end == ProductEnd::swiglu ? kGroupOutputs : kWideOutputs) / kTileOutputs);
  const WideCut cut =
      wide_cut(cuda.sm_count(), {tile_type(type), args.units, args.depth, args.rows});
  with_tile_type(
      type, [&](auto t) { ProductKernels<decltype(t)::value>::launch_wide(cuda, args, x, cut); });
}

// Up to as many rows as one launch takes; units are numbered by row tiles.
void launch_rows(CudaContext& cuda, WeightType type, ProductArgs args, RowView x) {
  const NarrowShape narrow =
      narrow_shape(narrow_device(cuda), narrow_product(args, type), args.rows);
  const bool fits = narrow.bytes <= cuda.shared_limit();
  // More rows than the narrow kernel takes, or such as it cannot take, or not as well.
  const bool wide =
      args.rows > kNarrowRows ||
      (cuda.has_warp_groups() && (!fits || prefers_wide(tile_type(type), args.end, args.rows)));
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
  if (cuda.has_warp_groups() &&
      (rows > kNarrowRows || prefers_wide(tile_type(type), args.end, rows))) {
    return rows;
  }
  const int32_t most = narrow_rows(narrow_device(cuda), narrow_product(args, type));
  TINYLOOP_CHECK(most > 0 || cuda.has_warp_groups());
  return most > 0 ? most : rows;
}

// Sees to it that the rows are there, normed or with their squares beside them.
void take_norm(CudaContext& cuda, const RmsNormArgs& norm, ProductArgs& args) {
  if (!is_foldable(norm)) return rms_norm_cuda(cuda, norm);
  if (!norm.prepared) prepare_norm_cuda(cuda, norm);
  args.squares = cuda.row_squares(size_t(norm.rows) * size_t(square_pitch(norm.cols)));
  args.norm_cols = norm.cols;
  args.eps = norm.eps;
}

void put_next(CudaContext& cuda, const RmsNormArgs& next, ProductArgs& args) {
  args.next.weight = next.weight;
  args.next.rows = static_cast<__half*>(next.y.data);
  args.next.squares = cuda.row_squares(size_t(next.rows) * size_t(square_pitch(next.cols)));
  args.next.stride = next.y.stride;
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
  if (input.norm) take_norm(cuda, *input.norm, args);
  if (outcome.next) put_next(cuda, *outcome.next, args);
  const WeightType type = layers[0].weights->type;
  number_units(args, 1);
  const int32_t most = most_rows(cuda, args, type, input.rows);
  for (int32_t row = 0; row < input.rows; row += most) {
    take_rows(args, layers, outcome, row, std::min(most, input.rows - row));
    launch_rows(cuda, type, args, input.x.from_row(row));
    if (input.norm) args.squares += int64_t{most} * square_pitch(args.norm_cols);
    if (!outcome.next) continue;
    args.next.rows += int64_t{most} * args.next.stride;
    args.next.squares += int64_t{most} * square_pitch(outcome.next->cols);
  }
}

bool prepares_next(const CudaContext& cuda, const ProductLayer& layer, int32_t rows,
                   const RmsNormArgs& next) {
  const bool aligned = reinterpret_cast<uintptr_t>(next.weight) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(next.y.data) % 8 == 0;
  return is_foldable(next) && aligned && next.cols == layer.weights->rows && next.rows == rows &&
         !takes_gemm(cuda, {&layer, 1}, {{}, rows}, {.end = ProductEnd::add});
}

}  // namespace tinyloop::kernels
