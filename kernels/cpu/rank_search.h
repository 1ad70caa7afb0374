// How far the order of a row's tokens (kernels/sampling_math.h) reaches for some of them to measure
// so much, without sorting it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/row_scan.h"
#include "kernels/sampling_math.h"

namespace tinyloop::kernels {

// Tokens from a rank on, without the rank of each being computed.
class Beginning {
 public:
  explicit Beginning(uint64_t least)
      : value_(value_of_rank(least)), id_(uint32_t(token_of_rank(least))) {}
  // Without branches: which way they would go is a toss-up, token by token.
  bool has(float value, size_t token) const {
    return (value > value_) | ((value == value_) & (token <= id_));
  }

 private:
  float value_;
  uint32_t id_;
};

// How a token counts towards a target: as one.
struct CountOne {
  static constexpr size_t kTokens = 512;  // at a time
  void measure(std::span<const float> tokens, uint64_t* out) const {
    std::fill_n(out, tokens.size(), 1);
  }
  uint64_t of(float) const { return 1; }
};

// By its weight at a temperature.
struct Weigh {
  static constexpr size_t kTokens = 512;
  float greatest, temperature;

  void measure(std::span<const float> tokens, uint64_t* out) const {
    std::array<float, kTokens> weights;
    exp_of_row(tokens, greatest, temperature, weights.data());
    for (size_t i = 0; i < tokens.size(); ++i) out[i] = in_units(weights[i]);
  }
  uint64_t of(float value) const { return weight_of((value - greatest) / temperature); }
};

// Sums of what the tokens measure, by some of the digits of their value's key.
struct DigitSums {
  std::array<uint64_t, 1 << 11> sums{};
  uint64_t total = 0;

  void add(uint32_t digit, uint64_t measure) {
    sums[digit] += measure;
    total += measure;
  }
  // The digit at which the target is reached, from the highest one on; takes those above off it.
  uint32_t reach(uint64_t& target) const {
    auto digit = uint32_t(sums.size() - 1);
    while (sums[digit] < target) target -= sums[digit--];
    return digit;
  }
};

// The rank of the last token of the shortest beginning of the order whose tokens measure
// target(what all measure) >= 1 together; of the tokens from rank `least` on. All of them measure
// less: `least`. Found digit by digit of the value, from sums over the tokens that share the digits
// so far.
template <class Measure, class Target>
uint64_t rank_at(std::span<const float> row, uint64_t least, const Measure& measure,
                 const Target& target_of) {
  const Beginning beginning(least);
  std::array<uint64_t, Measure::kTokens> measures;
  DigitSums first;
  for (size_t from = 0; from < row.size(); from += Measure::kTokens) {
    const std::span<const float> tokens =
        row.subspan(from, std::min(Measure::kTokens, row.size() - from));
    measure.measure(tokens, measures.data());
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!beginning.has(tokens[i], from + i)) continue;
      first.add(order_key(tokens[i]) >> 21, measures[i]);
    }
  }
  uint64_t target = target_of(first.total);
  if (target > first.total) return least;
  uint32_t known = first.reach(target), shift = 21;
  for (const uint32_t bits : {11u, 10u}) {
    const float low = value_of_key(known << shift);
    const float high = value_of_key(known << shift | ((1u << shift) - 1));
    shift -= bits;
    DigitSums sums;
    for (size_t t = 0; t < row.size(); ++t) {
      if (row[t] < low || row[t] > high || !beginning.has(row[t], t)) continue;
      sums.add(order_key(row[t]) >> shift & ((1u << bits) - 1), measure.of(row[t]));
    }
    known = known << bits | sums.reach(target);
  }
  // Of those that equal the last one, as many as it takes, by id.
  const float last = value_of_key(known);
  const uint64_t each = measure.of(last);
  for (size_t t = 0;; ++t) {
    if (row[t] != last) continue;
    if (target <= each) return rank_of(last, uint32_t(t));
    target -= each;
  }
}

}  // namespace tinyloop::kernels
