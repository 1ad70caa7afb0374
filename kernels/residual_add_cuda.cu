#include "base/check.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/residual_add.h"

namespace tinyloop::kernels {

namespace {

struct ResidualAdd {
  DeviceRows x, y;
  int64_t cols;

  __device__ void run(int row, int col) const {
    float* y_row = static_cast<float*>(y.data) + row_start(y, row);
    y_row[col] = __ldcg(y_row + col) + load_element(x, row_start(x, row) + col);
  }
};

}  // namespace

void residual_add_cuda(CudaContext& cuda, const ResidualAddArgs& args) {
  TINYLOOP_CHECK(args.y.type == ScalarType::f32 && args.x.type != ScalarType::q8);
  launch_elements(cuda, args.rows,
                  ResidualAdd{device_rows(args.x), device_rows(args.y), args.cols});
}

}  // namespace tinyloop::kernels
