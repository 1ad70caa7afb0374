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

inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u, kPhiloxMultiplier1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u, kPhiloxWeyl1 = 0xBB67AE85u;
inline constexpr int kPhiloxRounds = 10;

// Ten rounds over `counter` under the 64-bit `key` (low word first).
constexpr PhiloxBlock philox(uint64_t key, PhiloxBlock counter) noexcept {
  auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return counter;
}

constexpr PhiloxBlock philox(uint64_t key, RandomDomain domain, uint64_t index,
                             uint32_t sub) noexcept {
  return philox(key, {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), sub,
                      static_cast<uint32_t>(domain)});
}

// Uniform in [0, 1) with 53 bits, from two words.
constexpr double uniform_double(uint32_t high, uint32_t low) noexcept {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// Two independent standard normal values from four words (Box and Muller, in double).
std::array<float, 2> normal_pair(const PhiloxBlock& words) noexcept;

}  // namespace tinyloop::base
