#include "base/check.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kv_device.cuh"
#include "kernels/kv_append.h"

namespace tinyloop::kernels {

namespace {

struct KvAppend {
  DeviceRows k, v;
  DevicePages cache;
  DeviceCounters* counters;
  int64_t cols;  // of all K/V heads

  __device__ void run(int row, int col) const {
    const int position = cache.position(row), head = col / cache.head_dim;
    __half* to = cache.keys(cache.table(row), position, head) +
                 DevicePages::matrix_place(col % cache.head_dim);
    to[0] = to_half_saturated(load_element(k, row_start(k, row) + col), counters);
    to[cache.value_offset()] =
        to_half_saturated(load_element(v, row_start(v, row) + col), counters);
  }
};

}  // namespace

void kv_append_cuda(CudaContext& cuda, const KvAppendArgs& args) {
  const KvLayout& layout = args.cache.layout;
  TINYLOOP_CHECK(layout.type == ScalarType::f16 && layout.order == PageOrder::matrices);
  launch_elements(cuda, args.rows,
                  KvAppend{device_rows(args.k), device_rows(args.v), device_pages(args.cache),
                           cuda.counters(), int64_t{layout.kv_heads} * layout.head_dim});
}

}  // namespace tinyloop::kernels
