// Philox 4x32-10: a counter-based random generator. The same key and counter give the same words
// on every machine, in any order of calls, so a draw can be tied to (seed, position) and does not
// depend on what was drawn before.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace tinyloop::base {

// What a draw is for. Part of the counter, so that two uses never see the same words.
enum class RandomDomain : uint32_t {
  sampling = 1,       // key: the request's seed; counter: position of the token
  initial_state = 2,  // key: a constant; counter: position and dimension
  test = 3,
};

using PhiloxBlock = std::array<uint32_t, 4>;

// Ten rounds over `counter` under the 64-bit `key` (low word first).
PhiloxBlock philox(uint64_t key, PhiloxBlock counter) noexcept;

inline PhiloxBlock philox(uint64_t key, RandomDomain domain, uint64_t index,
                          uint32_t sub) noexcept {
  return philox(key, {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), sub,
                      static_cast<uint32_t>(domain)});
}

// Uniform in [0, 1) with 53 bits, from two words.
inline double uniform_double(uint32_t high, uint32_t low) noexcept {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// Two independent standard normal values from four words (Box and Muller, in double).
std::array<float, 2> normal_pair(const PhiloxBlock& words) noexcept;

}  // namespace tinyloop::base
