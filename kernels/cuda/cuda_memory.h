// Device memory of one CUDA replica: a pool of its own, copies on the replica's stream, and an
// arena through which a step's small arrays travel.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "kernels/device_memory.h"

namespace tinyloop::kernels {

// Launches that have been collected must be started before memory that they use is copied or given
// back: the memory asks for it.
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  virtual void start_pending() = 0;  // throws Failure
};

class CudaMemory final : public DeviceMemory {
 public:
  // A span of staged bytes that the step has to bring to the device before its first op.
  struct Upload {
    const std::byte* host;
    std::byte* device;
    size_t bytes;
  };

  // `stream` and `pending` outlive the memory. Throws Failure.
  CudaMemory(int device, cudaStream_t stream, size_t budget_bytes, PendingWork& pending);
  ~CudaMemory() override;

  // Copies come behind everything that was started before; those from and to the host are complete
  // when they return.
  void copy_in(void* device, const void* host, size_t bytes) override;
  void copy_out(void* host, const void* device, size_t bytes) override;
  void copy(void* to_device, const void* from_device, size_t bytes) override;
  // Copies `bytes` to pinned memory at once; `host` may change afterwards. The same calls in the
  // same order, with sizes between the same powers of two, give the same addresses step after step.
  const void* stage(const void* host, size_t bytes) override;
  // The host's copy of what stage() has put to `device` in this step; nullptr: it has not.
  const std::byte* staged(const void* device) const;
  // The ops of the last step must have ended.
  void begin_step() override;

  // Calls take(upload) for each span that has been staged and not been asked for yet.
  template <class Take>
  void take_uploads(Take take) {
    for (Slab& slab : slabs_) {
      if (slab.taken == slab.used) continue;
      take(Upload{slab.host + slab.taken, slab.device + slab.taken, slab.used - slab.taken});
      slab.taken = slab.used;
    }
  }

  // Pinned host memory.
  void* share(size_t bytes) override;

 protected:
  void* do_allocate(size_t bytes) noexcept override;
  void do_release(void* block, size_t bytes) noexcept override;

 private:
  struct Slab {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    size_t bytes = 0;
    size_t used = 0;
    size_t taken = 0;  // of `used`: by take_uploads
  };

  void start_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
  Slab& slab_for(size_t bytes);
  void free_all() noexcept;

  int device_;
  cudaStream_t stream_;
  PendingWork& pending_;
  cudaMemPool_t pool_ = nullptr;
  std::vector<Slab> slabs_;
  std::vector<void*> pinned_;
};

}  // namespace tinyloop::kernels
