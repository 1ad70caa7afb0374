// The hidden vector of the feed-forward layer in one op: y = act(W_gate · x, W_up · x), the gate
// and up projections with the activation between them and the next matrix
// (kernels/ffn_activation.h). The result has the bits of the three ops one after another; their
// outputs never reach memory.
#pragma once

#include "kernels/ffn_activation.h"
#include "kernels/row_view.h"
#include "kernels/weight.h"

namespace tinyloop::kernels {

class CpuContext;

struct FfnHiddenArgs {
  FfnType type = FfnType::swiglu;
  WeightMatrix gate;  // W_gate [ffn, d] in panels; empty for relu2
  WeightMatrix up;    // W_up [ffn, d] in panels; 32 divides ffn
  RowView x;          // [rows, d] q8
  RowView y;          // [rows, ffn] q8
  int32_t rows = 0;
};

void ffn_hidden_cpu(CpuContext& cpu, const FfnHiddenArgs& args);

}  // namespace tinyloop::kernels
