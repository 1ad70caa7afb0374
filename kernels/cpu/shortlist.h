// The first tokens of a row's order (kernels/sampling_math.h), where they are few.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tinyloop::kernels {

class Shortlist {
 public:
  static constexpr size_t kMost = 1024;

  // The first `count` <= min(kMost, row.size()) tokens. The row has no NaN.
  Shortlist(std::span<const float> row, size_t count);

  // Their ranks, the best first.
  std::span<const uint64_t> ranks() const { return {ranks_.data(), count_}; }
  // Without the tokens of logit −inf.
  std::span<const uint64_t> finite_ranks() const;

 private:
  bool gather(std::span<const float> row, float least);
  void gather_by_rank(std::span<const float> row, size_t count);

  std::array<uint64_t, 2 * kMost> ranks_;
  size_t count_ = 0;
};

}  // namespace tinyloop::kernels
