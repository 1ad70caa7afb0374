#include "base/check.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/rope.h"

namespace tinyloop::kernels {

namespace {

struct Rope {
  DeviceRows x;
  const int32_t* positions;
  const float2* cos_sin;
  DeviceCounters* counters;
  int32_t cols;   // pairs of all heads
  int32_t pairs;  // of one head

  __device__ void run(int row, int pair) const {
    const int64_t at = row_start(x, row) + pair * 2;
    const float2 turn = __ldg(cos_sin + int64_t{__ldcg(positions + row)} * pairs + pair % pairs);
    const float2 y = turned({load_element(x, at), load_element(x, at + 1)}, turn);
    store_element(x, at, y.x, counters);
    store_element(x, at + 1, y.y, counters);
  }
};

}  // namespace

void rope_cuda(CudaContext& cuda, const RopeArgs& args) {
  TINYLOOP_CHECK(args.x.type != ScalarType::q8 && args.head_dim % 2 == 0);
  auto op = argument_of<Rope>();
  op.x = device_rows(args.x);
  op.positions = args.positions;
  op.cos_sin = reinterpret_cast<const float2*>(args.cos_sin);
  op.counters = cuda.counters();
  op.cols = args.heads * args.head_dim / 2;
  op.pairs = args.head_dim / 2;
  launch_elements(cuda, args.rows, op);
}

}  // namespace tinyloop::kernels
