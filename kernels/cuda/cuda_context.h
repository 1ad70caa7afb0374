// What the CUDA ops share: the device and its stream, the launches of the step at hand, and the
// work space of kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include "kernels/cuda/cuda_memory.h"
#include "kernels/cuda/launch_list.h"
#include "kernels/cuda/step_graphs.h"

namespace tinyloop::kernels {

class CublasHandle;
struct Gemm;

class CudaStream {
 public:
  explicit CudaStream(int device);  // makes `device` the thread's device; throws Failure
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Counters that kernels write and the host reads without waiting: pinned memory.
struct DeviceCounters {
  unsigned long long saturated = 0;  // Backend::saturated
};

// Bytes of shared memory that no kernel exceeds beside what it asks for at its start.
inline constexpr uint32_t kStaticShared = 4096;

// Thread rule: one thread at a time; that of the replica once it serves.
class CudaContext final : public PendingWork {
 public:
  // `ordinal` names an existing device. Throws Failure(out_of_memory, replica_failed).
  CudaContext(int ordinal, size_t memory_budget_bytes);
  ~CudaContext() override;

  int device() const { return device_; }
  int sm_count() const { return sm_count_; }
  // Whether kernels use what 9.0 brought: wgmma, clusters, overlapped starts.
  bool has_warp_groups() const { return has_warp_groups_; }
  size_t shared_limit() const { return shared_limit_; }  // bytes of dynamic shared memory a block
  std::string description() const { return description_; }
  CudaMemory& memory() { return memory_; }
  cudaStream_t stream() const { return stream_.get(); }

  // Puts a kernel behind those collected before. Its shared memory may exceed 48 KiB.
  // `start_registers`: where warp groups of the kernel hand registers to each other, how many a
  // thread they count on at the start. Compiled with fewer it would wait for ever; then this throws
  // Failure(internal).
  template <class Argument>
  void launch(void (*kernel)(Argument), const LaunchShape& shape, const Argument& argument,
              int start_registers = 0) {
    prepare(reinterpret_cast<const void*>(kernel), shape.shared_bytes, start_registers);
    list_.add(kernel, shape, argument);
  }

  // Starts what has been collected, staged arrays first.
  void start_pending() override;
  // The same, where steps do not repeat: a list that is no graph had better run while the next pass
  // is being prepared. Where they do, it waits for the rest of the step.
  void start_early();
  // Waits for everything. Throws Failure(replica_failed) where the device reports an error.
  void synchronise();
  // Any thread: see Backend.
  uint64_t host_launches() const { return host_launches_.load(std::memory_order_relaxed); }
  uint64_t saturated() const {
    return *const_cast<volatile unsigned long long*>(&counters_->saturated);
  }

  // At least `bytes` of device memory for one op's own use, contents undefined; the next op may
  // overwrite it. Grows when asked for more. Throws Failure(out_of_memory).
  std::byte* workspace(size_t bytes);
  // Counters of blocks that have arrived, all 0 between ops: who uses one leaves it at 0.
  uint32_t* arrivals(size_t count);

  // Sums of squares beside the rows of the norm that was prepared last (kernels/rms_norm.h).
  float* row_squares(size_t count);

  DeviceCounters* counters() { return counters_; }

  // From now on there is cuBLAS, with the work space that its products need. Throws Failure as
  // CublasHandle does.
  void use_cublas(std::span<const char* const> names);
  bool has_cublas() const { return cublas_ != nullptr; }
  std::string cublas_version() const;
  // Starts what has been collected, then the product: no kernel of ours that may become part of a
  // graph. For contexts with cuBLAS. Throws Failure.
  void run(const Gemm& gemm);

 private:
  void start_list();
  void note_step(bool replayed);
  // Whether the buffer had to be replaced by one of `bytes`; without memory for it, it stays.
  bool grow(DeviceBuffer& buffer, size_t bytes, const char* what);
  // Work for the first launch of a kernel, and for one with more shared memory than any before. All
  // kernels want the same share of a multiprocessor's memory to be shared memory: where two that
  // follow one another do not, the second cannot start beside the first.
  void prepare(const void* function, uint32_t shared_bytes, int start_registers);

  int device_;
  int sm_count_ = 0;
  bool has_warp_groups_ = false;
  size_t shared_limit_ = 0;
  std::string description_;
  CudaStream stream_;
  LaunchList list_;  // outlives the memory, which asks for what is pending when it gives back
  StepGraphs graphs_;
  int32_t new_steps_ = 0;    // one after another, that no graph was there for
  int32_t early_steps_ = 0;  // to come, of which each pass is started by itself
  CudaMemory memory_;
  DeviceBuffer workspace_, arrivals_, row_squares_;
  std::unique_ptr<CublasHandle> cublas_;
  DeviceCounters* counters_ = nullptr;
  std::exception_ptr failure_;  // of a start; the context is of no use any more
  std::unordered_map<const void*, uint32_t> shared_allowed_;
  std::atomic<uint64_t> host_launches_{0};
};

}  // namespace tinyloop::kernels
