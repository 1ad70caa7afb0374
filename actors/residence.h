// Which replicas have computed which beginnings of prompts: where an automatic pool sends a request
// so that it finds its prefix. A hint: what it says may have been evicted, and nothing but speed
// depends on it.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/prefix_index.h"

namespace tinyloop::actors {

// Any thread; the lock is held for moments only. Remembers beginnings of 1, 2, 4, 8 tokens and of
// every multiple of 16, by their hash: the last kMostBeginnings of them at least, at most twice as
// many.
class Residence {
 public:
  static constexpr size_t kMostBeginnings = size_t{1} << 16;

  // The hashes of those beginnings of a prompt that are remembered, the shortest first.
  using Beginnings = std::vector<uint64_t>;
  static Beginnings beginnings(std::span<const int32_t> tokens, engine::PrefixKey key);

  // Bit i: replica i has been told to compute the longest of the beginnings that any has. 0: none
  // has any.
  uint64_t holders(const Beginnings& of) const;
  // From now on replica `index` has them all.
  void add(const Beginnings& all, size_t index);

 private:
  using Map = std::unordered_map<uint64_t, uint64_t>;  // from a hash to replicas

  mutable std::mutex mutex_;
  Map recent_, older_;
};

}  // namespace tinyloop::actors
