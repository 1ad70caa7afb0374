// A fork-join pool for the ops of one CPU replica. Its size is fixed at construction; the calling
// thread is one of its threads.
//
// parallel_for cuts the items into chunks by (items, grain) alone; threads claim chunks as they
// become free, so a thread that the system has put aside holds up at most the chunk it is in. An op
// splits its outputs this way, never a reduction: who computes a chunk cannot change a bit.
//
// Idle threads look for work for some microseconds, then sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

namespace tinyloop::kernels {

class ThreadPool {
 public:
  // `threads` >= 1, the caller included. Throws base::Failure(out_of_memory) if the system refuses
  // a thread.
  explicit ThreadPool(int32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t threads() const { return int32_t(workers_.size()) + 1; }

  // Calls body(int64_t begin, int64_t end, int32_t thread) for every chunk of at most `grain` >= 1
  // items of [0, items), each once, and returns when all have finished. `thread` is below
  // threads(); two calls with the same number never run at the same time. No allocation. One caller
  // at a time. A call from inside a body runs on that body's thread alone. What a body throws
  // leaves parallel_for on the calling thread, after the other chunks (the first exception wins).
  template <class Body>
  void parallel_for(int64_t items, int64_t grain, Body&& body) {
    using Type = std::remove_reference_t<Body>;
    run({.items = items,
         .grain = grain,
         .call = [](void* context, int64_t begin, int64_t end,
                    int32_t thread) { (*static_cast<Type*>(context))(begin, end, thread); },
         .context = const_cast<void*>(static_cast<const void*>(&body))});
  }

 private:
  struct Job {
    int64_t items = 0;
    int64_t grain = 1;
    void (*call)(void* context, int64_t begin, int64_t end, int32_t thread) = nullptr;
    void* context = nullptr;
  };

  void run(const Job& job);
  void run_chunks(int32_t thread) noexcept;
  void work(int32_t thread) noexcept;
  void join() noexcept;
  void rethrow_failure();

  Job job_;  // written only while no worker is inside a job
  std::exception_ptr failure_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<uint32_t> phase_{0};   // odd: a job is open; each change is one step up
  alignas(64) std::atomic<int64_t> next_{0};     // first item that nobody has claimed
  alignas(64) std::atomic<uint32_t> active_{0};  // workers that may be reading job_
  std::vector<std::thread> workers_;
};

}  // namespace tinyloop::kernels
