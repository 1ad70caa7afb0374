// The order of a product's sums, and what becomes of them (kernels/cuda/tile_product.h). Plain C++:
// how launches are cut can be tested without a device.
#pragma once

#include <cstdint>

namespace tinyloop::kernels {

inline constexpr int kProductGroups = 8;

// First tile of group `group` of a depth of `tiles`.
constexpr int group_begin(int group, int tiles) {
  return group * tiles / kProductGroups;
}

// What becomes of a sum.
enum class ProductEnd : int32_t {
  store,   // y = softcap(sum)
  add,     // y += sum; y is f32
  swiglu,  // y = silu(sum of parts[0]) · sum of parts[1]
  relu2,   // y = max(sum, 0)²
  qkv,     // parts q, k, v: q and k turned by RoPE; q to y, k and v to their places in the cache
};

}  // namespace tinyloop::kernels
