// Copies to shared memory, and the barriers that say when they have arrived.
//
// What compute capability 9.0 brought (the copy engine, clusters, registers that change hands) does
// nothing before it, unless something else is said.
#pragma once

#include <cstdint>

namespace tinyloop::kernels {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- By threads ---------------------------------------------------------------------------------

// 16 bytes past the first-level cache; zeros where `valid` is false.
__device__ inline void copy_16(uint32_t shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}

__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ inline void wait_all_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// ---- Barriers -----------------------------------------------------------------------------------
// In shared memory. A phase ends when as many arrivals and bytes as it expects have come.

// `count`: arrivals that end a phase.
__device__ inline void init_barrier(uint64_t* barrier, int count) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
#endif
}

// One arrival; the barrier by its address in shared memory.
__device__ inline void arrive_barrier(uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}

// One arrival, and that many bytes more for the phase to end.
__device__ inline void expect_bytes(uint64_t* barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
#endif
}

// Until the phase has ended; the barrier by its address in shared memory.
__device__ inline void wait_barrier(uint32_t barrier, int phase) {
  uint32_t done = 0;
  while (done == 0) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, "
        "p; }"
        : "=r"(done)
        : "r"(barrier), "r"(phase)
        : "memory");
#else
    asm volatile(
        "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier), "r"(phase)
        : "memory");
#endif
  }
}

// Some whole warps of a block; number 0 is that of __syncthreads().
template <int kBarrier, int kThreads>
__device__ inline void sync_threads() {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

// ---- By the copy engine -------------------------------------------------------------------------
// `barrier` counts the bytes, which it is to expect.

// 16-byte pieces, by the copy engine, for one thread.
__device__ inline void copy_bulk(uint8_t* to, const uint8_t* from, int bytes, uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
#endif
}

// Brings a tensor map near, for the first copy_box() from it.
__device__ inline void prefetch_map(const void* map) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#endif
}

// One box of a tensor (kernels/cuda/tensor_map.h) at column `col`, row `row`.
__device__ inline void copy_box(uint8_t* to, const void* map, int col, int row, uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(shared_address(to)),
      "l"(map), "r"(col), "r"(row), "r"(shared_address(barrier))
      : "memory");
#endif
}

// ---- Counted copies -----------------------------------------------------------------------------
// A barrier for the copies of one warp, on every device: before 9.0 every lane copies its share and
// says so, from 9.0 on one lane asks the copy engine for all of it.

__device__ inline void init_copy_barrier(uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  init_barrier(barrier, 1);
#else
  asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(shared_address(barrier)) : "memory");
#endif
}

// Before 9.0: a lane's arrival, once the copies that it has started are there.
__device__ inline void arrive_copies(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

// After the barriers of a warp have been initialised by one of its lanes.
__device__ inline void publish_copy_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  __syncwarp();
}

// `stretches` stretches of `bytes` each, from[i] → to + i · pitch; both multiples of 16. By a whole
// warp, after which nobody reads what was there.
template <int kStretches>
__device__ inline void copy_counted(uint8_t* to, int pitch,
                                    const uint8_t* const (&from)[kStretches], int bytes,
                                    uint64_t* barrier, int lane) {
#if __CUDA_ARCH__ >= 900
  if (lane != 0) return;
  expect_bytes(barrier, bytes * kStretches);
#pragma unroll
  for (int i = 0; i < kStretches; ++i) copy_bulk(to + i * pitch, from[i], bytes, barrier);
#else
#pragma unroll
  for (int i = 0; i < kStretches; ++i) {
    for (int at = lane * 16; at < bytes; at += 32 * 16) {
      copy_16(shared_address(to) + uint32_t(i * pitch + at), from[i] + at, true);
    }
  }
  arrive_copies(barrier);
#endif
}

__device__ inline void wait_copy_barrier(uint64_t* barrier, int phase) {
  wait_barrier(shared_address(barrier), phase);
}

// ---- Clusters -----------------------------------------------------------------------------------

// All threads of a cluster arrive, then all wait. The arrival promises nothing about memory: a
// fence would take as long as a read of memory.
__device__ inline void arrive_cluster_relaxed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
__device__ inline void wait_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// From this block to where `to` is in the cluster's block `rank`, counted by `barrier` there.
__device__ inline void send_to_rank(void* to, const void* from, int bytes, uint64_t* barrier,
                                    int rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .b32 to, barrier; mapa.shared::cluster.u32 to, %0, %4;"
      "mapa.shared::cluster.u32 barrier, %3, %4;"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
      "[to], [%1], %2, [barrier]; }" ::"r"(shared_address(to)),
      "r"(shared_address(from)), "r"(bytes), "r"(shared_address(barrier)), "r"(rank)
      : "memory");
#endif
}

// What this thread has written to shared memory may be read by copies.
__device__ inline void publish_to_copies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// ---- Registers ----------------------------------------------------------------------------------

// Registers of a thread from here on, by whole warp groups: fewer, then others may take more.
template <int kRegisters>
__device__ inline void give_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ inline void take_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

}  // namespace tinyloop::kernels
