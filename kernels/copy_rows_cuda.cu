#include "base/check.h"
#include "kernels/copy_rows.h"
#include "kernels/cuda/elementwise.cuh"

namespace tinyloop::kernels {

namespace {

struct CopyRows {
  DeviceRows x, y;
  DeviceCounters* counters;
  int64_t cols;

  __device__ void run(int row, int col) const {
    store_element(y, row_start(y, row) + col, load_element(x, row_start(x, row) + col), counters);
  }
};

}  // namespace

void copy_rows_cuda(CudaContext& cuda, const CopyRowsArgs& args) {
  TINYLOOP_CHECK(args.x.type != ScalarType::q8 && args.y.type != ScalarType::q8);
  launch_elements(cuda, args.rows,
                  CopyRows{device_rows(args.x), device_rows(args.y), cuda.counters(), args.cols});
}

}  // namespace tinyloop::kernels
