#include "base/check.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/ffn_activation.h"

namespace tinyloop::kernels {

namespace {

struct FfnActivation {
  DeviceRows gate, up, y;
  DeviceCounters* counters;
  int32_t cols;
  FfnType type;

  __device__ void run(int row, int col) const {
    float value = load_element(up, row_start(up, row) + col);
    if (type == FfnType::swiglu) {
      value *= silu(load_element(gate, row_start(gate, row) + col));
    } else {
      value = squared_relu(value);
    }
    store_element(y, row_start(y, row) + col, value, counters);
  }
};

}  // namespace

void ffn_activation_cuda(CudaContext& cuda, const FfnActivationArgs& args) {
  TINYLOOP_CHECK(args.up.type != ScalarType::q8 && args.y.type != ScalarType::q8);
  auto op = argument_of<FfnActivation>();
  op.gate = device_rows(args.gate);
  op.up = device_rows(args.up);
  op.y = device_rows(args.y);
  op.counters = cuda.counters();
  op.cols = args.cols;
  op.type = args.type;
  launch_elements(cuda, args.rows, op);
}

}  // namespace tinyloop::kernels
