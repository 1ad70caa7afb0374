// The set of tokens a sequence has seen, prompt and output alike: what the repetition penalty
// applies to. One per sequence; adding a token allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tinyloop::engine {

class PenaltyHistory {
 public:
  PenaltyHistory() = default;  // of a vocabulary without tokens
  explicit PenaltyHistory(size_t vocab) : bits_((vocab + 63) / 64) {}

  // Ids outside the vocabulary have no effect.
  void add(int32_t token) noexcept {
    const auto index = static_cast<size_t>(token);
    if (token >= 0 && index / 64 < bits_.size()) bits_[index / 64] |= bit(index);
  }
  void add(std::span<const int32_t> tokens) noexcept {
    for (const int32_t token : tokens) add(token);
  }
  bool contains(int32_t token) const noexcept {
    const auto index = static_cast<size_t>(token);
    return token >= 0 && index / 64 < bits_.size() && (bits_[index / 64] & bit(index)) != 0;
  }

 private:
  static uint64_t bit(size_t index) { return uint64_t{1} << (index % 64); }

  std::vector<uint64_t> bits_;
};

}  // namespace tinyloop::engine
