#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace tinyloop::kernels {
namespace {

TEST(ThreadPoolTest, EveryItemOnceInChunksOfAtMostTheGrain) {
  for (int32_t threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t items : {0, 1, 2, 7, 64, 1000}) {
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(items));
        std::vector<std::atomic<int>> inside(static_cast<size_t>(threads));
        std::atomic<int> wrong{0};
        pool.parallel_for(items, grain, [&](int64_t begin, int64_t end, int32_t thread) {
          if (begin >= end || end - begin > grain || begin % grain != 0) ++wrong;
          if (thread < 0 || thread >= threads || inside[size_t(thread)]++ != 0) ++wrong;
          for (int64_t i = begin; i < end; ++i) ++seen[size_t(i)];
          --inside[size_t(thread)];
        });
        EXPECT_EQ(wrong, 0);
        for (auto& count : seen) EXPECT_EQ(count, 1);
      }
    }
  }
}

TEST(ThreadPoolTest, NestedCallsRunOnTheirOwnThread) {
  ThreadPool pool(3);
  for (int64_t items : {0, 1, 50}) {
    std::atomic<int64_t> total{0};
    std::atomic<int> wrong{0};
    pool.parallel_for(8, 1, [&](int64_t, int64_t, int32_t outer) {
      pool.parallel_for(items, 4, [&](int64_t begin, int64_t end, int32_t thread) {
        if (thread != outer) ++wrong;
        total += end - begin;
      });
    });
    EXPECT_EQ(total, 8 * items);
    EXPECT_EQ(wrong, 0);
  }
}

TEST(ThreadPoolTest, AnExceptionReachesTheCallerAfterTheOtherChunks) {
  for (int32_t threads : {1, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> done{0};
      EXPECT_THROW(pool.parallel_for(16, 1,
                                     [&](int64_t begin, int64_t, int32_t) {
                                       ++done;
                                       if (begin == 15) throw std::runtime_error("chunk 15");
                                     }),
                   std::runtime_error);
      EXPECT_EQ(done, 16);
      done = 0;
      pool.parallel_for(16, 1, [&](int64_t, int64_t, int32_t) { ++done; });
      EXPECT_EQ(done, 16) << "the pool works on";
    }
  }
}

TEST(ThreadPoolTest, WrongArgumentsAreBugs) {
  EXPECT_THROW(ThreadPool(0), base::Failure);
  ThreadPool pool(1);
  const auto nothing = [](int64_t, int64_t, int32_t) {};
  EXPECT_THROW(pool.parallel_for(1, 0, nothing), base::Failure);
  EXPECT_THROW(pool.parallel_for(-1, 1, nothing), base::Failure);
}

// Plain (not atomic) data handed from job to job: ThreadSanitizer sees a missing ordering.
TEST(ThreadPoolTest, ManyRoundsSeeEachOthersResults) {
  ThreadPool pool(4);
  std::vector<int64_t> data(97, 0);
  for (int64_t round = 0; round < 5000; ++round) {
    pool.parallel_for(int64_t(data.size()), 5, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t i = begin; i < end; ++i) data[size_t(i)] += round;
    });
  }
  for (int64_t value : data) EXPECT_EQ(value, 4999 * 5000 / 2);
}

TEST(ThreadPoolTest, PoolsOfSeveralCallersOnABusyMachine) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 3; ++i) {
    busy.emplace_back([&] {
      while (!stop) std::this_thread::yield();
    });
  }
  std::vector<std::thread> callers;
  std::vector<int64_t> sums(3, 0);
  for (size_t c = 0; c < sums.size(); ++c) {
    callers.emplace_back([&sums, c] {
      ThreadPool pool(3);
      std::vector<int64_t> parts(20);
      for (int round = 0; round < 500; ++round) {
        pool.parallel_for(
            20, 1, [&](int64_t begin, int64_t, int32_t) { parts[size_t(begin)] = begin + round; });
        sums[c] += std::accumulate(parts.begin(), parts.end(), int64_t{0});
      }
    });
  }
  for (auto& caller : callers) caller.join();
  stop = true;
  for (auto& thread : busy) thread.join();
  for (int64_t sum : sums) EXPECT_EQ(sum, 500 * 190 + 20 * (499 * 500 / 2));
}

// State letters of this process's threads called `name` ("S": asleep).
std::string states_of_threads(const std::string& name) {
  std::string states;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm, stat;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    std::getline(std::ifstream(task.path() / "stat"), stat);
    if (comm == name) states += stat.at(stat.rfind(')') + 2);
  }
  return states;
}

TEST(ThreadPoolTest, IdleWorkersAreNamedAndAsleep) {
  ThreadPool pool(2);
  pool.parallel_for(100, 1, [](int64_t, int64_t, int32_t) {});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::string states;
  while (states != "S" && std::chrono::steady_clock::now() < deadline) {
    states = states_of_threads("tl-cpu-1");
    std::this_thread::yield();
  }
  EXPECT_EQ(states, "S");
}

}  // namespace
}  // namespace tinyloop::kernels
