#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/cuda/cublas_handle.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/gemm_product.h"
#include "kernels/cuda/plain_rows.h"
#include "kernels/cuda/product_end.cuh"
#include "kernels/fp16_copy.h"

namespace tinyloop::kernels {

namespace {

// ---- Ends: what sums in memory turn into --------------------------------------------------------

__host__ __device__ inline int pairs_of(const ProductPart& part) {
  return (part.weights.outputs + 1) / 2;
}

// A thread ends a pair of outputs of one part. A part's sums begin at column `first_unit`.
template <ProductEnd kEnd>
struct GemmEnd {
  ProductArgs product;
  const float* sums;  // [rows][pitch]
  int32_t pitch;
  int32_t cols;  // pairs of a row: of all parts, for swiglu of the second

  __device__ void run(int row, int pair) const {
    int p = kEnd == ProductEnd::swiglu ? 1 : 0;
    for (; pair >= pairs_of(product.parts[p]); ++p) pair -= pairs_of(product.parts[p]);
    const int output = pair * 2;
    ProductTarget to{product.parts[p], p, 0, {}};
    to.row_start = row_start(to.part.y, row);
    const float2 sum = sums_at(p, row, output);
    float2 gate = sum, beside = {};
    if constexpr (kEnd == ProductEnd::swiglu) gate = sums_at(0, row, output);
    if constexpr (kEnd == ProductEnd::add) beside = old_pair(to, output);
    if constexpr (kEnd == ProductEnd::qkv) {
      to.place = place_of_row(product.cache, row);
      if (p < 2) beside = turn_of_pair(product, to, output);
    }
    HalfPairs halves;
    end_product<kEnd>(product, to, output, 1.0f, sum, gate, beside, halves);
    halves.report(product.counters);
  }

  // Sums `output` and the next of a part, where there is a next one.
  __device__ float2 sums_at(int part, int row, int output) const {
    const ProductPart& of = product.parts[part];
    const float* at = sums + int64_t{row} * pitch + of.first_unit + output;
    if (output + 1 >= of.weights.outputs) return {__ldcg(at), 0.0f};
    if ((reinterpret_cast<uintptr_t>(at) & 7) == 0) {
      return __ldcg(reinterpret_cast<const float2*>(at));
    }
    return {__ldcg(at), __ldcg(at + 1)};
  }
};

void launch_end(CudaContext& cuda, const ProductArgs& product, const float* sums, int32_t pitch) {
  with_end(product.end, [&](auto e) {
    constexpr ProductEnd kEnd = decltype(e)::value;
    auto op = argument_of<GemmEnd<kEnd>>();
    op.product = product;
    op.sums = sums;
    op.pitch = pitch;
    for (int p = kEnd == ProductEnd::swiglu ? 1 : 0; p < product.part_count; ++p) {
      op.cols += pairs_of(product.parts[p]);
    }
    launch_elements(cuda, product.rows, op);
  });
}

// ---- Products -----------------------------------------------------------------------------------

// Rows behind an index whose lines follow one another are dense rows: those of a prompt that came
// alone, as a rule. Seen where the host staged the index.
RowView without_index(CudaContext& cuda, const RowView& y, int32_t rows) {
  const auto* lines = reinterpret_cast<const int32_t*>(cuda.memory().staged(y.index));
  if (!lines) return y;
  for (int32_t r = 1; r < rows; ++r) {
    if (lines[r] != lines[0] + r) return y;
  }
  return RowView{y.data, y.type, y.stride, nullptr}.from_row(lines[0]);
}

// Whether the library can write where the results belong. What goes to FP16 does not: numbers
// beyond its range would become infinite, unseen.
bool is_direct(const ProductLayer& layer, ProductEnd end) {
  const bool plain_end = end == ProductEnd::store || end == ProductEnd::add;
  return plain_end && layer.y.type == ScalarType::f32 && !layer.y.index;
}

// The number of layers from the first on whose copies lie one behind the other: to the library they
// are one matrix.
size_t run_of_copies(std::span<const ProductLayer> layers) {
  size_t count = 1;
  for (; count < layers.size(); ++count) {
    const WeightMatrix& before = *layers[count - 1].weights;
    const std::byte* behind = before.fp16 + fp16_copy_bytes(before.rows, before.cols);
    if (layers[count].weights->fp16 != behind) break;
  }
  return count;
}

// How a product is cut and where its parts stand in the work space: first rows in FP16, if those
// that are there will not do, then sums, if they cannot go straight to where they belong.
struct GemmPlan {
  int32_t padded;  // numbers of a copied row
  bool copies;
  bool direct;
  int32_t pitch;  // of the sums of a row

  size_t copy_bytes(int32_t rows) const {
    return copies ? size_t(rows) * size_t(padded) * sizeof(__half) : 0;
  }
  size_t scratch_bytes(int32_t rows) const {
    return copy_bytes(rows) + (direct ? 0 : size_t(rows) * size_t(pitch) * sizeof(float));
  }
  // Whole blocks of the library's kernels.
  int32_t most_rows(int32_t rows) const {
    const size_t bytes = scratch_bytes(kMostTiledRows);
    if (bytes == 0) return rows;
    const size_t blocks = std::max<size_t>(kGemmScratchBytes / bytes, 1);
    return int32_t(std::min(blocks * size_t{kMostTiledRows}, size_t(rows)));
  }
};

GemmPlan plan_gemm(std::span<const ProductLayer> layers, const RowView& x, ProductEnd end) {
  const int32_t cols = layers[0].weights->cols;
  int32_t outputs = 0;
  for (const ProductLayer& layer : layers) outputs += layer.weights->rows;
  return {.padded = fp16_pitch(cols),
          .copies = x.index || !is_plain(x, cols),
          .direct = std::all_of(layers.begin(), layers.end(),
                                [&](const ProductLayer& layer) { return is_direct(layer, end); }),
          .pitch = (outputs + 3) / 4 * 4};
}

// The product of the layer's matrix with args.rows rows of x, of args.cols numbers.
Gemm gemm_of(const ProductLayer& layer, const RowView& x, const ProductArgs& args) {
  Gemm gemm{};
  gemm.weights = layer.weights->fp16;
  gemm.weights_pitch = fp16_pitch(layer.weights->cols);
  gemm.outputs = layer.weights->rows;
  gemm.x = x.data;
  gemm.x_pitch = x.stride;
  gemm.rows = args.rows;
  gemm.depth = args.cols;
  return gemm;
}

void run_direct(CudaContext& cuda, std::span<const ProductLayer> layers, const RowView& x,
                const ProductArgs& args) {
  for (size_t i = 0; i < layers.size(); ++i) {
    Gemm gemm = gemm_of(layers[i], x, args);
    gemm.y = static_cast<float*>(args.parts[i].y.data);
    gemm.y_pitch = args.parts[i].y.stride;
    gemm.add = args.end == ProductEnd::add;
    cuda.run(gemm);
  }
}

// All layers' sums side by side, then their end.
void run_through(CudaContext& cuda, std::span<const ProductLayer> layers, const RowView& x,
                 const ProductArgs& args, float* sums, int32_t pitch) {
  for (size_t first = 0; first < layers.size();) {
    const size_t count = run_of_copies(layers.subspan(first));
    Gemm gemm = gemm_of(layers[first], x, args);
    for (size_t i = first + 1; i < first + count; ++i) gemm.outputs += layers[i].weights->rows;
    gemm.y = sums + args.parts[first].first_unit;
    gemm.y_pitch = pitch;
    cuda.run(gemm);
    first += count;
  }
  launch_end(cuda, args, sums, pitch);
}

}  // namespace

bool takes_gemm(const CudaContext& cuda, std::span<const ProductLayer> layers,
                const ProductInput& input, const ProductOutcome& outcome) {
  return cuda.has_cublas() && input.rows > kMostTiledRows && outcome.softcap == 0.0f &&
         std::all_of(layers.begin(), layers.end(),
                     [](const ProductLayer& layer) { return layer.weights->fp16 != nullptr; });
}

void launch_gemm_product(CudaContext& cuda, std::span<const ProductLayer> all,
                         const ProductInput& input, const ProductOutcome& outcome) {
  TINYLOOP_CHECK(all.size() <= size_t{ProductArgs::kMostParts});
  if (input.norm) rms_norm_cuda(cuda, *input.norm);
  std::array<ProductLayer, ProductArgs::kMostParts> dense;
  const auto layers = std::span(dense).first(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    layers[i] = {all[i].weights, without_index(cuda, all[i].y, input.rows)};
  }
  const GemmPlan plan = plan_gemm(layers, input.x, outcome.end);
  ProductArgs args = product_args(cuda, layers, outcome);
  const int32_t cols = args.cols;
  if (plan.copies) args.cols = plan.padded;  // zeros on both sides
  for (size_t i = 1; i < layers.size(); ++i) {
    args.parts[i].first_unit = args.parts[i - 1].first_unit + layers[i - 1].weights->rows;
  }
  const int32_t most = plan.most_rows(input.rows);
  for (int32_t row = 0; row < input.rows; row += most) {
    take_rows(args, layers, outcome, row, std::min(most, input.rows - row));
    std::byte* scratch = cuda.workspace(plan.scratch_bytes(args.rows));
    RowView x = input.x.from_row(row);
    if (plan.copies) x = plain_copy(cuda, {x, args.rows, cols, plan.padded}, scratch);
    if (plan.direct) {
      run_direct(cuda, layers, x, args);
    } else {
      auto* sums = reinterpret_cast<float*>(scratch + plan.copy_bytes(args.rows));
      run_through(cuda, layers, x, args, sums, plan.pitch);
    }
  }
}

}  // namespace tinyloop::kernels
