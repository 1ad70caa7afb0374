// Tensor-core products of FP16 with FP32 sums.
//
// mma.sync (16 x 8 x 16) and wgmma (64 x N x 16) give the same bits for the same k steps in the
// same order on compute capability 9.0, whatever N: tests/kernels/cuda_linear_test.cc holds them to
// it. So kernels may choose between them by the number of rows.
//
// Nor does it matter which factor is operand A: c + Σ a · b and c + Σ b · a are the same bits.
// Narrow and wide attention rely on it (kernels/cuda/attention_args.cuh);
// tests/kernels/cuda_attention_test.cc holds the two to the same bits.
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

// Lane (g, t) has two numbers of row g of an 8 x 8 matrix of FP16, at columns 2t and 2t + 1; then
// those of column g, at rows 2t and 2t + 1.
__device__ inline uint32_t transpose_matrix(uint32_t a) {
  uint32_t r;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(a));
  return r;
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
