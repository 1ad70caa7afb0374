#include "base/check.h"
#include "kernels/cuda/tile_product.h"
#include "kernels/ffn_hidden.h"

namespace tinyloop::kernels {

void ffn_hidden_cuda(CudaContext& cuda, const FfnHiddenArgs& args, const RmsNormArgs* norm) {
  const ProductInput input{args.x, args.rows, norm};
  if (args.type == FfnType::relu2) {
    const ProductLayer up{&args.up, args.y};
    return launch_product(cuda, {&up, 1}, input, {.end = ProductEnd::relu2});
  }
  TINYLOOP_CHECK(args.gate.rows == args.up.rows);
  const ProductLayer both[] = {{&args.gate, args.y}, {&args.up, args.y}};
  launch_product(cuda, both, input, {.end = ProductEnd::swiglu});
}

}  // namespace tinyloop::kernels
