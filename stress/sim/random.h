// The one source of chance in a simulation: everything that happens follows from its seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace tinyloop::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  size_t below(size_t bound) { return size_t(next() % bound); }  // bound > 0
  int32_t between(int32_t least, int32_t most) {
    return least + int32_t(below(size_t(most - least + 1)));
  }
  bool one_in(size_t n) { return below(n) == 0; }
  bool percent(size_t share) { return below(100) < share; }
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  template <class T>
  T& of(std::deque<T>& values) {
    return values[below(values.size())];
  }
  template <class T, size_t n>
  T of(const T (&values)[n]) {
    return values[below(n)];
  }

 private:
  uint64_t state_;
};

}  // namespace tinyloop::sim
