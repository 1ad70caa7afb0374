#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/tile_product.h"
#include "kernels/kv_append.h"
#include "kernels/qkv.h"
#include "kernels/rope.h"

namespace tinyloop::kernels {

namespace {

// Matrices of different kinds: one launch each, then RoPE and the cache on their own.
void qkv_apart(CudaContext& cuda, const QkvArgs& args) {
  const KvLayout& layout = args.cache.layout;
  const LinearArgs layers[] = {args.q, args.k, args.v};
  rms_norm_cuda(cuda, args.norm);
  linear_cuda(cuda, layers);
  rope_cuda(cuda, {args.q.y, args.cache.positions, args.cos_sin, args.q.rows, args.heads,
                   layout.head_dim});
  rope_cuda(cuda, {args.k.y, args.cache.positions, args.cos_sin, args.k.rows, layout.kv_heads,
                   layout.head_dim});
  kv_append_cuda(cuda, {args.k.y, args.v.y, args.cache, args.v.rows});
}

}  // namespace

void qkv_cuda(CudaContext& cuda, const QkvArgs& args) {
  const KvLayout& layout = args.cache.layout;
  TINYLOOP_CHECK(layout.type == ScalarType::f16 && layout.order == PageOrder::matrices);
  const WeightType type = tile_type(args.q.weights.type);
  if (tile_type(args.k.weights.type) != type || tile_type(args.v.weights.type) != type) {
    return qkv_apart(cuda, args);
  }
  const ProductLayer layers[] = {
      {&args.q.weights, args.q.y}, {&args.k.weights, args.k.y}, {&args.v.weights, args.v.y}};
  launch_product(cuda, layers, {args.q.x, args.q.rows, &args.norm},
                 {.end = ProductEnd::qkv, .qkv = &args});
}

}  // namespace tinyloop::kernels
