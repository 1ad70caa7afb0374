// The non-linear part of the feed-forward layer.
//   swiglu: y = silu(gate) ⊙ up, silu(z) = z / (1 + exp(−z))   (Shazeer, 2020)
//   relu2:  y = max(up, 0)²                                     (So et al., 2021); gate is unused
#pragma once

#include "kernels/row_view.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

enum class FfnType : uint8_t { swiglu, relu2 };

struct FfnActivationArgs {
  FfnType type = FfnType::swiglu;
  RowView gate;  // [rows, cols] scratch type
  RowView up;    // [rows, cols] scratch type
  RowView y;     // [rows, cols] scratch type, may be the rows of `up`; or q8, where 32 divides cols
  int32_t rows = 0;
  int32_t cols = 0;
};

void ffn_activation_cpu(CpuContext& cpu, const FfnActivationArgs& args);
void ffn_activation_cuda(CudaContext& cuda, const FfnActivationArgs& args);

}  // namespace tinyloop::kernels
