#include "base/check.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/scale_add.h"

namespace tinyloop::kernels {

namespace {

struct ScaleAdd {
  DeviceRows x, y;
  const float* a;
  int64_t cols;

  __device__ void run(int row, int col) const {
    float* y_row = static_cast<float*>(y.data) + row_start(y, row);
    const float scaled = __ldg(a + col) * __ldcg(y_row + col);
    y_row[col] = scaled + load_element(x, row_start(x, row) + col);
  }
};

}  // namespace

void scale_add_cuda(CudaContext& cuda, const ScaleAddArgs& args) {
  TINYLOOP_CHECK(args.y.type == ScalarType::f32 && args.x.type != ScalarType::q8);
  launch_elements(cuda, args.rows,
                  ScaleAdd{device_rows(args.x), device_rows(args.y), args.a, args.cols});
}

}  // namespace tinyloop::kernels
