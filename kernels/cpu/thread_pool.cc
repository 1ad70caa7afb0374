#include "kernels/cpu/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "base/check.h"

namespace tinyloop::kernels {

namespace {

constexpr int kSpins = 600;  // about 10 us: the usual gap between two ops of a step

thread_local int32_t current_thread = -1;  // number in the job being run, or -1 outside of jobs

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns once `word` differs from `old`.
uint32_t wait_while_equal(const std::atomic<uint32_t>& word, uint32_t old) noexcept {
  uint32_t now = word.load(std::memory_order_acquire);
  for (int spin = 0; now == old && spin < kSpins; ++spin) {
    pause();
    now = word.load(std::memory_order_acquire);
  }
  while (now == old) {
    word.wait(old, std::memory_order_acquire);
    now = word.load(std::memory_order_acquire);
  }
  return now;
}

}  // namespace

ThreadPool::ThreadPool(int32_t threads) {
  TINYLOOP_CHECK(threads >= 1);
  workers_.reserve(size_t(threads) - 1);
  try {
    for (int32_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    const auto failed = std::to_string(workers_.size() + 2);
    join();
    throw base::Failure(errc::out_of_memory, "cpu_threads = " + std::to_string(threads) +
                                                 ": thread " + failed +
                                                 " did not start: " + error.what());
  }
}

ThreadPool::~ThreadPool() {
  join();
}

void ThreadPool::join() noexcept {
  stopping_.store(true, std::memory_order_relaxed);
  phase_.fetch_add(2, std::memory_order_release);
  phase_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// A worker first counts itself in, then looks whether the job is still open; the caller first
// closes the job, then waits for the count to be 0. Both orders are sequentially consistent, so
// either the worker sees the job closed or the caller sees the worker: job_ is never changed under
// a reader.
void ThreadPool::work(int32_t thread) noexcept {
  pthread_setname_np(pthread_self(), ("tl-cpu-" + std::to_string(thread)).c_str());
  uint32_t seen = 0;
  for (;;) {
    seen = wait_while_equal(phase_, seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (seen % 2 == 0) continue;
    active_.fetch_add(1);
    if (phase_.load() % 2 == 1) run_chunks(thread);
    if (active_.fetch_sub(1) == 1) active_.notify_one();
  }
}

void ThreadPool::run_chunks(int32_t thread) noexcept {
  current_thread = thread;
  for (;;) {
    const int64_t begin = next_.fetch_add(job_.grain, std::memory_order_relaxed);
    if (begin >= job_.items) break;
    try {
      job_.call(job_.context, begin, std::min(begin + job_.grain, job_.items), thread);
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
  }
  current_thread = -1;
}

void ThreadPool::run(const Job& job) {
  TINYLOOP_CHECK(job.items >= 0 && job.grain >= 1);
  if (workers_.empty() || job.items <= job.grain || current_thread >= 0) {
    const int32_t thread = std::max(current_thread, 0);
    for (int64_t begin = 0; begin < job.items; begin += job.grain) {
      job.call(job.context, begin, std::min(begin + job.grain, job.items), thread);
    }
    return;
  }
  job_ = job;
  next_.store(0, std::memory_order_relaxed);
  phase_.fetch_add(1);
  phase_.notify_all();
  run_chunks(0);
  phase_.fetch_add(1);
  for (uint32_t inside = active_.load(); inside != 0;) inside = wait_while_equal(active_, inside);
  rethrow_failure();
}

void ThreadPool::rethrow_failure() {
  if (!failed_.load()) return;
  failed_.store(false);
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace tinyloop::kernels
