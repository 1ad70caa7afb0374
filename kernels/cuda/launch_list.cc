#include "kernels/cuda/launch_list.h"

namespace tinyloop::kernels {

namespace {

template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace

void LaunchList::clear() {
  launches_.clear();
  bytes_.clear();
  lanes_ = kSeed;
  added_first_ = 0;
}

KernelLaunch LaunchList::take(const void* function, const LaunchShape& shape, const void* argument,
                              size_t bytes) {
  const auto* first = static_cast<const std::byte*>(argument);
  const KernelLaunch launch{function, shape, bytes_.size(), bytes};
  bytes_.insert(bytes_.end(), first, first + bytes);
  bytes_.resize((bytes_.size() + kPiece - 1) / kPiece * kPiece);
  mix(bytes_.data() + launch.argument, bytes_.size() - launch.argument);
  alignas(kPiece) std::byte pieces[(sizeof launch + kPiece - 1) / kPiece * kPiece] = {};
  std::memcpy(pieces, &launch, sizeof launch);
  mix(pieces, sizeof pieces);
  return launch;
}

// FNV-1a over words, in lanes that do not wait for each other.
void LaunchList::mix(const std::byte* pieces, size_t bytes) {
  constexpr uint64_t kPrime = 1099511628211u;
  auto [a, b, c, d] = lanes_;
  for (size_t at = 0; at < bytes; at += kPiece) {
    uint64_t words[4];
    std::memcpy(words, pieces + at, kPiece);
    a = (a ^ words[0]) * kPrime;
    b = (b ^ words[1]) * kPrime;
    c = (c ^ words[2]) * kPrime;
    d = (d ^ words[3]) * kPrime;
  }
  lanes_ = {a, b, c, d};
}

// Shifts bring the lanes' upper halves, where a product gathers what it depends on, to the lower.
uint64_t LaunchList::hash() const {
  uint64_t hash = 0;
  for (const uint64_t lane : lanes_) hash = (hash ^ lane ^ lane >> 32) * 0x9e3779b97f4a7c15u;
  return hash;
}

bool LaunchList::operator==(const LaunchList& other) const {
  return lanes_ == other.lanes_ && added_first_ == other.added_first_ &&
         same_bytes(launches_, other.launches_) && same_bytes(bytes_, other.bytes_);
}

}  // namespace tinyloop::kernels
