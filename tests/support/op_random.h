// Seeded random inputs of the op tests. The same seed gives the same values on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace tinyloop::testing {

class OpRandom {
 public:
  explicit OpRandom(uint64_t seed) : engine_(seed) {}

  // Uniform in [−scale, scale).
  float value(float scale = 1.0f) { return scale * float(double(engine_() >> 11) * 0x1p-52 - 1.0); }
  std::vector<float> values(size_t count, float scale = 1.0f) {
    std::vector<float> out(count);
    for (float& v : out) v = value(scale);
    return out;
  }
  int32_t below(int32_t bound) { return int32_t(engine_() % uint64_t(bound)); }

  // `count` different numbers of 0 .. bound − 1, in random order.
  std::vector<int32_t> distinct(int32_t count, int32_t bound) {
    std::vector<int32_t> all(static_cast<size_t>(bound));
    std::iota(all.begin(), all.end(), 0);
    for (int32_t i = 0; i < count; ++i) {
      std::swap(all[size_t(i)], all[size_t(i + below(bound - i))]);
    }
    all.resize(size_t(count));
    return all;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace tinyloop::testing
