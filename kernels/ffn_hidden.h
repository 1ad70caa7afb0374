// The hidden vector of the feed-forward layer in one op: y = act(W_gate · x, W_up · x), the gate
// and up projections with the activation between them and the next matrix
// (kernels/ffn_activation.h). The gate's and up's outputs never reach memory; where the scratch
// type is f32, the result has the bits of the three ops one after another.
#pragma once

#include "kernels/ffn_activation.h"
#include "kernels/rms_norm.h"
#include "kernels/row_view.h"
#include "kernels/weight.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

struct FfnHiddenArgs {
  FfnType type = FfnType::swiglu;
  WeightMatrix gate;  // W_gate [ffn, d]; empty for relu2
  WeightMatrix up;    // W_up [ffn, d]; both in panels, 32 dividing ffn, or both in tiles
  RowView x;          // [rows, d] q8 for panels, scratch type for tiles
  RowView y;          // [rows, ffn] likewise
  int32_t rows = 0;
};

void ffn_hidden_cpu(CpuContext& cpu, const FfnHiddenArgs& args);
// `norm`: of the layer's input; its y is args.x, and may be left unwritten.
void ffn_hidden_cuda(CudaContext& cuda, const FfnHiddenArgs& args,
                     const RmsNormArgs* norm = nullptr);

}  // namespace tinyloop::kernels
