#include <array>

#include "base/check.h"
#include "kernels/cuda/tile_product.h"
#include "kernels/linear.h"

namespace tinyloop::kernels {

namespace {

// Whether one launch can compute both.
bool go_together(const LinearArgs& a, const LinearArgs& b) {
  return tile_type(a.weights.type) == tile_type(b.weights.type) &&
         a.weights.cols == b.weights.cols && a.x == b.x && a.rows == b.rows;
}

}  // namespace

void linear_cuda(CudaContext& cuda, std::span<const LinearArgs> layers) {
  for (size_t first = 0; first < layers.size();) {
    std::array<ProductLayer, ProductArgs::kMostParts> together;
    size_t count = 0;
    while (count < together.size() && first + count < layers.size() &&
           go_together(layers[first], layers[first + count])) {
      const LinearArgs& layer = layers[first + count];
      together[count++] = {&layer.weights, layer.y};
    }
    launch_product(cuda, std::span(together).first(count), {layers[first].x, layers[first].rows},
                   {.end = ProductEnd::store});
    first += count;
  }
}

bool linear_add_cuda(CudaContext& cuda, const LinearArgs& layer, const RmsNormArgs* next) {
  const ProductLayer one{&layer.weights, layer.y};
  if (next && !prepares_next(cuda, one, layer.rows, *next)) next = nullptr;
  launch_product(cuda, {&one, 1}, {layer.x, layer.rows}, {.end = ProductEnd::add, .next = next});
  return next != nullptr;
}

}  // namespace tinyloop::kernels
