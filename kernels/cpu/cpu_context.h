// What the CPU ops of one replica share: a thread pool and one fixed workspace a thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cpu/thread_pool.h"
#include "kernels/device_memory.h"

namespace tinyloop::kernels {

class CpuContext {
 public:
  static constexpr size_t kWorkspaceFloats = 64 * 1024;  // a quarter of a usual 1 MiB L2 cache
  static constexpr int64_t kChunkWork = 16 * 1024;  // multiply-adds that take some microseconds

  // `threads` >= 1. The workspaces are allocated from `memory` (use: workspace), which must outlive
  // the context. Throws base::Failure(out_of_memory) naming the bytes asked for.
  CpuContext(DeviceMemory& memory, int32_t threads);

  ThreadPool& pool() { return pool_; }
  int32_t threads() const { return pool_.threads(); }

  // kWorkspaceFloats floats for the pool's thread `thread`; contents do not survive an op.
  float* workspace(int32_t thread) {
    return workspaces_.as<float>() + size_t(thread) * kWorkspaceFloats;
  }

  // parallel_for with chunks of at least kChunkWork units of work, an item costing `item_work`.
  template <class Body>
  void for_items(int64_t items, int64_t item_work, Body&& body) {
    const int64_t grain = kChunkWork / std::max<int64_t>(item_work, 1) + 1;
    pool_.parallel_for(items, grain, std::forward<Body>(body));
  }

  // body(row) for each of `rows` rows of `row_work` units of work.
  template <class Body>
  void for_rows(int64_t rows, int64_t row_work, Body&& body) {
    for_items(rows, row_work, [&body](int64_t begin, int64_t end, int32_t) {
      for (int64_t row = begin; row < end; ++row) body(int32_t(row));
    });
  }

 private:
  ThreadPool pool_;
  DeviceBuffer workspaces_;
};

// The SIMD target that this machine's ops run on, by Highway's name ("AVX3").
const char* simd_target_name();

}  // namespace tinyloop::kernels
