#include "base/check.h"
#include "base/philox.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/initial_state.h"

namespace tinyloop::kernels {

namespace {

struct InitialState {
  DeviceRows y;
  const int32_t* positions;
  int32_t cols;
  float std;

  __device__ void run(int row, int col) const {
    float value = 0.0f;
    if (std != 0.0f) {
      // The formula of base::normal_pair, in the device's own functions.
      const base::PhiloxBlock words =
          base::philox(kInitialStateKey, base::RandomDomain::initial_state,
                       uint64_t(__ldcg(positions + row)), uint32_t(col / 2));
      const double radius = sqrt(-2.0 * log(1.0 - base::uniform_double(words[0], words[1])));
      double sine, cosine;
      sincospi(2.0 * base::uniform_double(words[2], words[3]), &sine, &cosine);
      value = std * float(radius * (col % 2 == 0 ? cosine : sine));
    }
    static_cast<float*>(y.data)[row_start(y, row) + col] = value;
  }
};

}  // namespace

void initial_state_cuda(CudaContext& cuda, const InitialStateArgs& args) {
  TINYLOOP_CHECK(args.y.type == ScalarType::f32);
  launch_elements(cuda, args.rows,
                  InitialState{device_rows(args.y), args.positions, args.cols, args.std});
}

}  // namespace tinyloop::kernels
