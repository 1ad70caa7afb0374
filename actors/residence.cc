#include "actors/residence.h"

#include <bit>
#include <utility>

namespace tinyloop::actors {

namespace {

bool is_remembered(size_t length) {
  return length < 16 ? std::has_single_bit(length) : length % 16 == 0;
}

// Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014): its finaliser.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

Residence::Beginnings Residence::beginnings(std::span<const int32_t> tokens,
                                            engine::PrefixKey key) {
  Beginnings result;
  result.reserve(tokens.size() / 16 + 4);
  uint64_t hash = mix(uint64_t(uint32_t(key.loops)) << 32 | uint32_t(key.window));
  for (size_t i = 0; i < tokens.size(); ++i) {
    hash = mix(hash + uint64_t(uint32_t(tokens[i])) + 1);
    if (is_remembered(i + 1)) result.push_back(hash);
  }
  return result;
}

uint64_t Residence::holders(const Beginnings& of) const {
  const std::lock_guard lock(mutex_);
  for (auto hash = of.rbegin(); hash != of.rend(); ++hash) {
    uint64_t found = 0;
    for (const Map* map : {&recent_, &older_}) {
      const auto entry = map->find(*hash);
      if (entry != map->end()) found |= entry->second;
    }
    if (found != 0) return found;
  }
  return 0;
}

void Residence::add(const Beginnings& all, size_t index) {
  const std::lock_guard lock(mutex_);
  for (const uint64_t hash : all) {
    if (recent_.size() >= kMostBeginnings) older_ = std::exchange(recent_, {});
    recent_[hash] |= uint64_t{1} << index;
  }
}

}  // namespace tinyloop::actors
