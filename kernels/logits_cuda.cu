#include "kernels/cuda/tile_product.h"
#include "kernels/logits.h"

namespace tinyloop::kernels {

void logits_cuda(CudaContext& cuda, const LogitsArgs& args) {
  const ProductLayer head{&args.head, {args.logits, ScalarType::f32, args.head.rows, nullptr}};
  launch_product(cuda, {&head, 1}, {args.x, args.rows},
                 {.end = ProductEnd::store, .softcap = args.softcap});
}

}  // namespace tinyloop::kernels
