#include "base/check.h"
#include "base/philox.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/initial_state.h"

namespace tinyloop::kernels {

namespace {

// base/philox.h on the device: the same integers, and the same formula for the normal values.
__device__ void draw(uint32_t position, uint32_t pair, uint32_t (&words)[4]) {
  words[0] = position;
  words[1] = 0;
  words[2] = pair;
  words[3] = static_cast<uint32_t>(base::RandomDomain::initial_state);
  uint32_t k0 = uint32_t(kInitialStateKey), k1 = uint32_t(kInitialStateKey >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * words[0], b = uint64_t{0xCD9E8D57u} * words[2];
    const uint32_t first = uint32_t(b >> 32) ^ words[1] ^ k0;
    const uint32_t third = uint32_t(a >> 32) ^ words[3] ^ k1;
    words[1] = uint32_t(b);
    words[3] = uint32_t(a);
    words[0] = first;
    words[2] = third;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

__device__ double uniform(uint32_t high, uint32_t low) {
  return double((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

struct InitialState {
  DeviceRows y;
  const int32_t* positions;
  int32_t cols;
  float std;

  __device__ void run(int row, int col) const {
    float value = 0.0f;
    if (std != 0.0f) {
      uint32_t words[4];
      draw(uint32_t(__ldcg(positions + row)), uint32_t(col / 2), words);
      const double radius = sqrt(-2.0 * log(1.0 - uniform(words[0], words[1])));
      double sine, cosine;
      sincospi(2.0 * uniform(words[2], words[3]), &sine, &cosine);
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
