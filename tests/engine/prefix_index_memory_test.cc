// PrefixIndex when memory runs out, at every allocation in turn. operator new is replaced for this
// whole program, and fails only where a test asks. Not under a sanitizer, which has its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <random>

#include "engine/prefix_index.h"

namespace tinyloop::engine {
namespace {

thread_local int64_t allocations_left = INT64_MAX;

// While it lives, this thread gets so much memory and no more.
struct Allocations {
  explicit Allocations(int64_t count) { allocations_left = count; }
  ~Allocations() { allocations_left = INT64_MAX; }
};

void* take(size_t size) {
  if (allocations_left <= 0) return nullptr;
  --allocations_left;
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace
}  // namespace tinyloop::engine

// The standard library's operator delete is left as it is: it calls free(). GCC 12 would take
// that for a mistake if it saw through this.
[[gnu::noinline]] void* operator new(size_t size) {
  if (void* memory = tinyloop::engine::take(size)) return memory;
  throw std::bad_alloc();
}

namespace tinyloop::engine {
namespace {

using Tokens = std::vector<int32_t>;

Tokens random_tokens(std::mt19937& random) {
  Tokens tokens(1 + random() % 12);
  for (int32_t& token : tokens) token = int32_t(random() % 2);
  return tokens;
}

// Tries with no memory, then with one allocation, and so on until it succeeds.
class Trial {
 public:
  explicit Trial(PrefixIndex& index) : index_(index), before_(state()) {}

  PrefixIndex::Inserted insert(const Tokens& tokens, PrefixKey key, size_t bytes) {
    for (int64_t count = 0;; ++count) {
      try {
        const Allocations limit(count);
        return index_.insert(tokens, key, bytes);
      } catch (const std::bad_alloc&) {
        ++failures;
      }
      EXPECT_EQ(state(), before_);
      EXPECT_FALSE(index_.exact(tokens, key));
    }
  }

  size_t failures = 0;

 private:
  std::vector<size_t> state() const {
    std::vector<size_t> numbers{index_.bytes(), index_.node_count()};
    numbers.insert(numbers.end(), index_.oldest_first().begin(), index_.oldest_first().end());
    return numbers;
  }

  PrefixIndex& index_;
  std::vector<size_t> before_;
};

TEST(PrefixIndexMemory, AFailedInsertChangesNothing) {
  constexpr uint32_t kSeed = 7;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  PrefixIndex index({.entries = 12, .bytes = 60}), twin({.entries = 12, .bytes = 60});
  size_t failures = 0;
  for (int round = 0; round < 2000; ++round) {
    const Tokens tokens = random_tokens(random);
    const PrefixKey key{.loops = int32_t(1 + random() % 3), .window = 0};
    const size_t bytes = random() % 20;
    if (index.exact(tokens, key)) continue;
    Trial trial(index);
    const auto got = trial.insert(tokens, key, bytes), want = twin.insert(tokens, key, bytes);
    ASSERT_EQ(got.id, want.id);
    ASSERT_EQ(got.evicted, want.evicted);
    ASSERT_EQ(index.node_count(), twin.node_count());
    const Tokens prompt = random_tokens(random);
    ASSERT_EQ(index.find(prompt, key), twin.find(prompt, key));
    failures += trial.failures;
  }
  EXPECT_GT(failures, 5000u);
}

TEST(PrefixIndexMemory, OnlyInsertingAllocates) {
  PrefixIndex index({.entries = 4});
  const Tokens a{1, 2, 3}, b{1, 2, 4}, prompt{1, 2, 4, 5};
  const PrefixKey key;
  index.insert(a, key, 1);
  index.insert(b, key, 1);
  const Allocations none(0);
  EXPECT_EQ(index.find(prompt, key)->id, 2);
  EXPECT_EQ(index.exact(a, key), 1);
  index.touch(1);
  index.erase(1);
  index.erase(2);
  EXPECT_EQ(index.node_count(), 0u);
}

}  // namespace
}  // namespace tinyloop::engine

#endif
