// Tensor-core products of FP16 with FP32 sums, and the copies that feed them.
//
// mma.sync (16 x 8 x 16) and wgmma (64 x N x 16) give the same bits for the same k steps in the
// same order on compute capability 9.0, whatever N: tests/kernels/cuda_linear_test.cc holds them to
// it. So kernels may choose between them by the number of rows.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace tinyloop::kernels {

// ---- mma.sync -----------------------------------------------------------------------------------
// Lane (g, t) = (lane / 4, lane % 4). a: rows g, g + 8, g, g + 8 at columns 2t, 2t, 2t + 8, 2t + 8,
// two columns a register. b: column g of B at k = 2t and 2t + 8. c: row g columns 2t, 2t + 1, then
// row g + 8.

__device__ inline void mma_16x8x16(float (&c)[4], const uint32_t* a, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices of FP16 from shared memory; lane i gives the address of row i % 8 of matrix
// i / 8.
__device__ inline void load_matrices(uint32_t (&r)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}

__device__ inline void load_matrices_transposed(uint32_t (&r)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- Copies to shared memory --------------------------------------------------------------------

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

// ---- Counted copies -----------------------------------------------------------------------------
// A barrier in shared memory for the copies of one warp; a phase ends when all bytes of it have
// arrived. Before 9.0 every lane copies its share and says so, from 9.0 on one lane asks the copy
// engine for all of it.

__device__ inline void init_copy_barrier(uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
#else
  asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(shared_address(barrier)) : "memory");
#endif
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
  if (lane == 0) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes * kStretches)
        : "memory");
#pragma unroll
    for (int i = 0; i < kStretches; ++i) {
      asm volatile(
          "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
              "r"(shared_address(to) + uint32_t(i * pitch)),
          "l"(from[i]), "r"(bytes), "r"(shared_address(barrier))
          : "memory");
    }
  }
#else
#pragma unroll
  for (int i = 0; i < kStretches; ++i) {
    for (int at = lane * 16; at < bytes; at += 32 * 16) {
      copy_16(shared_address(to) + uint32_t(i * pitch + at), from[i] + at, true);
    }
  }
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
#endif
}

// One box of a tensor (kernels/cuda/tensor_map.h) at column `col`, row `row`; by one thread. 9.0.
__device__ inline void copy_box(uint8_t* to, const void* map, int col, int row, int bytes,
                                uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(shared_address(to)),
      "l"(map), "r"(col), "r"(row), "r"(shared_address(barrier))
      : "memory");
#endif
}

__device__ inline void wait_copy_barrier(uint64_t* barrier, int phase) {
  uint32_t done = 0;
  while (done == 0) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, "
        "p; }"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(phase)
        : "memory");
#else
    asm volatile(
        "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(phase)
        : "memory");
#endif
  }
}

// ---- wgmma --------------------------------------------------------------------------------------
// A comes from registers, laid out as for mma.sync, warp w of the group holding rows 16w …; B is
// [N][64] FP16 in shared memory, 128 bytes a row, its 16-byte pieces swizzled: piece p of row r
// lies at place p ^ (r % 8). The array starts at a multiple of 1024 bytes.

__device__ inline uint64_t swizzled_operand(uint32_t shared) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kRowGroup = uint64_t{1024 >> 4} << 32;
  return kSwizzle128 | kRowGroup | uint64_t{1} << 16 | (shared & 0x3ffff) >> 4;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TINYLOOP_WGMMA 1
#endif

__device__ inline void begin_products() {
#ifdef TINYLOOP_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

__device__ inline void commit_products() {
#ifdef TINYLOOP_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

template <int kPending>
__device__ inline void wait_products() {
#ifdef TINYLOOP_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}

#define TINYLOOP_C4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define TINYLOOP_C16(i) TINYLOOP_C4(i), TINYLOOP_C4(i + 4), TINYLOOP_C4(i + 8), TINYLOOP_C4(i + 12)

// c += A · B, or c = A · B where `add` is 0. c[4j …]: columns 8j …, as for mma.sync.
__device__ inline void wgmma_k16(float (&c)[16], const uint32_t* a, uint64_t b, int add) {
#ifdef TINYLOOP_WGMMA
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %21, 0;"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, p, 1, 1, "
      "0; }"
      : TINYLOOP_C16(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
#endif
}

__device__ inline void wgmma_k16(float (&c)[32], const uint32_t* a, uint64_t b, int add) {
#ifdef TINYLOOP_WGMMA
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %37, 0;"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"
      "%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, p, 1, 1, 0; }"
      : TINYLOOP_C16(0), TINYLOOP_C16(16)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
#endif
}

__device__ inline void wgmma_k16(float (&c)[64], const uint32_t* a, uint64_t b, int add) {
#ifdef TINYLOOP_WGMMA
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %69, 0;"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"
      "%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, "
      "p, 1, 1, 0; }"
      : TINYLOOP_C16(0), TINYLOOP_C16(16), TINYLOOP_C16(32), TINYLOOP_C16(48)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
#endif
}

#undef TINYLOOP_C4
#undef TINYLOOP_C16

}  // namespace tinyloop::kernels
