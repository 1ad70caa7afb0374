// Lists of launches are compared and hashed by what they would start. No device is needed.
#ifdef TINYLOOP_WITH_CUDA

#include "kernels/cuda/launch_list.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace tinyloop::kernels {
namespace {

struct Small {
  int32_t value;
};
struct Large {
  const void* pointer;
  float numbers[37];  // the struct is no multiple of what is hashed at a time
  int32_t last;
};

// Stand for kernels: only their addresses are used.
void first_kernel(Small argument) {
  std::abort();
  static_cast<void>(argument);
}
void second_kernel(Small argument) {
  std::abort();
  static_cast<void>(argument);
}
void large_kernel(Large argument) {
  std::abort();
  static_cast<void>(argument);
}

Large large() {
  static const int place = 0;
  auto argument = argument_of<Large>();
  argument.pointer = &place;
  for (int i = 0; i < 37; ++i) argument.numbers[i] = float(i);
  argument.last = 7;
  return argument;
}

constexpr LaunchShape kShape{{4, 2, 1}, {128, 1, 1}, 1024, 1};

LaunchList list_of(const Large& argument, const LaunchShape& shape = kShape) {
  LaunchList list;
  list.add(first_kernel, kShape, Small{1});
  list.add(large_kernel, shape, argument);
  list.add(second_kernel, kShape, Small{2});
  return list;
}

template <class Argument>
Argument argument_in(const LaunchList& list, size_t index) {
  const KernelLaunch& launch = list.launches().at(index);
  EXPECT_EQ(launch.argument_bytes, sizeof(Argument));
  Argument argument;
  std::memcpy(&argument, list.argument(launch), sizeof argument);
  return argument;
}

TEST(LaunchList, KeepsLaunchesAndArguments) {
  const LaunchList list = list_of(large());
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list.launches()[0].function, reinterpret_cast<const void*>(first_kernel));
  EXPECT_EQ(list.launches()[1].function, reinterpret_cast<const void*>(large_kernel));
  EXPECT_EQ(list.launches()[1].shape.grid.y, 2u);
  EXPECT_EQ(argument_in<Small>(list, 0).value, 1);
  EXPECT_EQ(argument_in<Large>(list, 1).numbers[36], 36.0f);
  EXPECT_EQ(argument_in<Small>(list, 2).value, 2);
}

TEST(LaunchList, TheSameLaunchesAreEqual) {
  EXPECT_EQ(list_of(large()), list_of(large()));
  EXPECT_EQ(list_of(large()).hash(), list_of(large()).hash());
  EXPECT_EQ(LaunchList(), LaunchList());
}

// Each difference shows in the comparison and in the hash; so do those between any two.
TEST(LaunchList, EveryDifferenceCounts) {
  std::vector<LaunchList> lists = {list_of(large()), LaunchList()};
  const auto with = [&](const std::function<void(Large&)>& change) {
    Large changed = large();
    change(changed);
    lists.push_back(list_of(changed));
  };
  with([](Large& a) { a.pointer = nullptr; });
  with([](Large& a) { a.numbers[0] = -1.0f; });
  with([](Large& a) { std::swap(a.numbers[3], a.numbers[11]); });  // the same lane of the hash
  with([](Large& a) { a.last = 8; });
  const auto shaped = [&](const std::function<void(LaunchShape&)>& change) {
    LaunchShape shape = kShape;
    change(shape);
    lists.push_back(list_of(large(), shape));
  };
  shaped([](LaunchShape& s) { s.grid.x = 5; });
  shaped([](LaunchShape& s) { s.grid.z = 2; });
  shaped([](LaunchShape& s) { s.block.x = 64; });
  shaped([](LaunchShape& s) { s.shared_bytes = 0; });
  shaped([](LaunchShape& s) { s.cluster = 8; });
  for (auto* kernel : {first_kernel, second_kernel}) {
    lists.emplace_back().add(kernel, kShape, Small{1});
  }
  LaunchList& reversed = lists.emplace_back();
  reversed.add(second_kernel, kShape, Small{2});
  reversed.add(large_kernel, kShape, large());
  reversed.add(first_kernel, kShape, Small{1});
  std::set<uint64_t> hashes;
  for (size_t a = 0; a < lists.size(); ++a) {
    hashes.insert(lists[a].hash());
    for (size_t b = 0; b < lists.size(); ++b) EXPECT_EQ(lists[a] == lists[b], a == b) << a << b;
  }
  EXPECT_EQ(hashes.size(), lists.size());
}

TEST(LaunchList, AFirstLaunchRunsAheadAndLeavesTheOthersAlone) {
  LaunchList list = list_of(large());
  list.add_first(second_kernel, kShape, Small{3});
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(argument_in<Small>(list, 0).value, 3);
  EXPECT_EQ(argument_in<Small>(list, 1).value, 1);
  EXPECT_EQ(argument_in<Large>(list, 2).last, 7);
  EXPECT_EQ(argument_in<Small>(list, 3).value, 2);

  LaunchList same = list_of(large()), other = list_of(large()), behind = list_of(large());
  same.add_first(second_kernel, kShape, Small{3});
  other.add_first(second_kernel, kShape, Small{4});
  behind.add(second_kernel, kShape, Small{3});
  EXPECT_EQ(list, same);
  EXPECT_EQ(list.hash(), same.hash());
  EXPECT_FALSE(list == other);
  EXPECT_NE(list.hash(), other.hash());
  EXPECT_FALSE(list == behind);
}

// What runs ahead brings arrays that kernels read before they wait for the one ahead of them.
TEST(LaunchList, NothingOverlapsWithWhatRunsAhead) {
  LaunchList list = list_of(large());
  // What stands ahead of a list may be a copy, which promises nothing.
  for (size_t i = 0; i < list.size(); ++i) EXPECT_EQ(list.may_overlap(i), i > 0) << i;
  list.add_first(second_kernel, kShape, Small{3});
  list.add_first(second_kernel, kShape, Small{4});
  for (size_t i = 0; i < list.size(); ++i) EXPECT_EQ(list.may_overlap(i), i > 2) << i;
  list.clear();
  list.add(first_kernel, kShape, Small{1});
  list.add(second_kernel, kShape, Small{2});
  EXPECT_TRUE(list.may_overlap(1));
}

// What was in the list before leaves no trace, and copies are whole.
TEST(LaunchList, ClearedListsAreAsNew) {
  LaunchList list;
  for (int i = 0; i < 100; ++i) list.add(large_kernel, kShape, large());
  list.clear();
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list, LaunchList());
  list.add(first_kernel, kShape, Small{1});
  list.add(large_kernel, kShape, large());
  list.add(second_kernel, kShape, Small{2});
  EXPECT_EQ(list, list_of(large()));
  EXPECT_EQ(list.hash(), list_of(large()).hash());
  const LaunchList copy = list;
  list.clear();
  EXPECT_EQ(copy, list_of(large()));
  EXPECT_EQ(argument_in<Large>(copy, 1).last, 7);
}

}  // namespace
}  // namespace tinyloop::kernels

#endif
