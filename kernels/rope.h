// Rotary position embedding in place, on interleaved pairs (0,1), (2,3), …: pair i of each head at
// position p is turned by the angle p · base^(−2i / head_dim). Source: Su et al., 2021; the pair
// layout is that of GGUF `llama` files.
#pragma once

#include "kernels/row_view.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

struct RopeArgs {
  RowView x;                           // [rows, heads · head_dim] scratch type
  const int32_t* positions = nullptr;  // [rows]
  const float* cos_sin = nullptr;      // [positions][head_dim / 2][2] (cos, sin), device memory
  int32_t rows = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;  // even
};

// Fills table[positions][head_dim / 2][2] on the host; angles in double, rounded once.
void fill_rope_table(float* table, int32_t positions, int32_t head_dim, float freq_base);

void rope_cpu(CpuContext& cpu, const RopeArgs& args);
void rope_cuda(CudaContext& cuda, const RopeArgs& args);

}  // namespace tinyloop::kernels
