// The kernel launches of one step, collected before any of them runs.
//
// Collecting first is what lets a step be compared with an earlier one: a step whose launches are
// the same, to the byte of every argument, is replayed as one CUDA graph.
#pragma once

#include <vector_types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace tinyloop::kernels {

// How a kernel is started.
struct LaunchShape {
  dim3 grid;
  dim3 block;
  uint32_t shared_bytes = 0;
  uint32_t cluster = 1;  // blocks along x that run together and share their memory
};

struct KernelLaunch {
  const void* function;
  LaunchShape shape;
  size_t argument;  // offset of the argument's bytes in the list
  size_t argument_bytes;
};
static_assert(std::has_unique_object_representations_v<KernelLaunch>);  // compared by its bytes

// Keeps its capacity when it is cleared: steps that are no longer than those before allocate
// nothing.
class LaunchList {
 public:
  // Every kernel takes one struct by value. Two structs with equal members have equal bytes: their
  // types have no padding, or are zeroed before they are filled (argument_of).
  template <class Argument>
  void add(void (*kernel)(Argument), const LaunchShape& shape, const Argument& argument) {
    launches_.push_back(take(kernel, shape, argument));
  }
  // Ahead of all that have been added, which may not begin before it has ended.
  template <class Argument>
  void add_first(void (*kernel)(Argument), const LaunchShape& shape, const Argument& argument) {
    launches_.insert(launches_.begin(), take(kernel, shape, argument));
    ++added_first_;
  }
  void clear();

  // Whether launch `index` may begin while the one before it in the list still runs.
  bool may_overlap(size_t index) const { return index > added_first_; }

  bool empty() const { return launches_.empty(); }
  size_t size() const { return launches_.size(); }
  const std::vector<KernelLaunch>& launches() const { return launches_; }
  void* argument(const KernelLaunch& launch) const {
    return const_cast<std::byte*>(bytes_.data() + launch.argument);
  }

  // Equal lists, of launches that were added in the same order, have equal hashes.
  uint64_t hash() const;
  bool operator==(const LaunchList& other) const;

 private:
  // Arguments begin at multiples of this; four words, which are hashed side by side.
  static constexpr size_t kPiece = 32;
  using Lanes = std::array<uint64_t, kPiece / sizeof(uint64_t)>;
  static constexpr Lanes kSeed = {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu,
                                  0xd6e8feb86659fd93u};

  template <class Argument>
  KernelLaunch take(void (*kernel)(Argument), const LaunchShape& shape, const Argument& argument) {
    static_assert(std::is_trivially_copyable_v<Argument>);
    return take(reinterpret_cast<const void*>(kernel), shape, &argument, sizeof(Argument));
  }
  KernelLaunch take(const void* function, const LaunchShape& shape, const void* argument,
                    size_t bytes);
  void mix(const std::byte* pieces, size_t bytes);

  std::vector<KernelLaunch> launches_;  // in the order in which they run
  std::vector<std::byte> bytes_;        // arguments, filled up with zeros to whole pieces
  Lanes lanes_ = kSeed;                 // of the hash
  size_t added_first_ = 0;
};

// A zeroed struct, padding included, to be filled member by member.
template <class Argument>
Argument argument_of() {
  static_assert(std::is_trivially_copyable_v<Argument>);
  Argument argument;
  std::memset(static_cast<void*>(&argument), 0, sizeof(Argument));
  return argument;
}

}  // namespace tinyloop::kernels
