#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/plain_rows.h"

namespace tinyloop::kernels {

namespace {

struct PlainRows {
  DeviceRows x, y;
  DeviceCounters* counters;
  int32_t cols;  // of y
  int32_t x_cols;

  __device__ void run(int row, int col) const {
    const float value = col < x_cols ? load_element(x, row_start(x, row) + col) : 0.0f;
    store_element(y, row_start(y, row) + col, value, counters);
  }
};

}  // namespace

bool is_plain(const RowView& x, int32_t cols) {
  return x.type == ScalarType::f16 && x.stride % 8 == 0 && cols % 8 == 0 &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

RowView plain_copy(CudaContext& cuda, const PlainCopy& copy, std::byte* to) {
  const RowView y{to, ScalarType::f16, copy.padded, nullptr};
  auto op = argument_of<PlainRows>();
  op.x = device_rows(copy.x);
  op.y = device_rows(y);
  op.counters = cuda.counters();
  op.cols = copy.padded;
  op.x_cols = copy.cols;
  launch_elements(cuda, copy.rows, op);
  return y;
}

}  // namespace tinyloop::kernels
