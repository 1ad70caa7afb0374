// Integer dot products of a panel's codes (kernels/weight_panels.h) with 8-bit activations, one
// implementation a SIMD target. A lane is an output; every step adds four values of k to it.
// Integer sums are exact, so targets differ in speed alone.
//
// Dot<kNibbles> has
//   Acc                           sums in progress
//   begin(offset)                 no value added yet
//   add(acc, codes, x)            += Σ of four codes · x[0 .. 3] in each lane
//   end(acc, offset)              the lanes' Σ u · x + offset
// `offset` is that of the weight type (Q4_0: −8 · Σ x, Q8_0: −128 · Σ x, Q4_1: 0). Nibbles are
// 0 .. 15, bytes 0 .. 255, |x| <= 127.
#if defined(TINYLOOP_KERNELS_CPU_INT8_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TINYLOOP_KERNELS_CPU_INT8_DOT_INL_H_
#undef TINYLOOP_KERNELS_CPU_INT8_DOT_INL_H_
#else
#define TINYLOOP_KERNELS_CPU_INT8_DOT_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

using OutputTag = hn::CappedTag<float, 16>;  // one lane an output
using OutputInts = hn::Vec<hn::RebindToSigned<OutputTag>>;
inline constexpr int32_t kOutputLanes = int32_t(HWY_MIN(HWY_LANES(float), 16));

#if HWY_TARGET != HWY_SCALAR

// A dword of four codes in each lane.
using CodeTag = hn::Repartition<uint8_t, OutputTag>;
using Codes = hn::Vec<CodeTag>;

HWY_INLINE Codes load_codes4(const std::byte* from) {
  return hn::LoadU(CodeTag(), reinterpret_cast<const uint8_t*>(from));
}

HWY_INLINE Codes low_halves(Codes codes) {
  return hn::And(codes, hn::Set(CodeTag(), 15));
}

HWY_INLINE Codes high_halves(Codes codes) {
  const hn::Repartition<uint16_t, CodeTag> wide;  // bytes cannot be shifted
  return low_halves(hn::BitCast(CodeTag(), hn::ShiftRight<4>(hn::BitCast(wide, codes))));
}

// x[0 .. 3] in every lane.
HWY_INLINE hn::Vec<hn::Repartition<int8_t, OutputTag>> broadcast4(const int8_t* x) {
  int32_t dword;
  std::memcpy(&dword, x, sizeof(dword));
  return hn::BitCast(hn::Repartition<int8_t, OutputTag>(),
                     hn::Set(hn::RebindToSigned<OutputTag>(), dword));
}

HWY_INLINE OutputInts splat_int(int32_t value) {
  return hn::Set(hn::RebindToSigned<OutputTag>(), value);
}

#endif  // HWY_TARGET != HWY_SCALAR

#if HWY_TARGET == HWY_SCALAR

struct Codes {
  uint8_t code[4];
};

HWY_INLINE Codes load_codes4(const std::byte* from) {
  Codes codes;
  std::memcpy(codes.code, from, sizeof(codes.code));
  return codes;
}

HWY_INLINE Codes low_halves(Codes codes) {
  for (uint8_t& code : codes.code) code &= 15;
  return codes;
}

HWY_INLINE Codes high_halves(Codes codes) {
  for (uint8_t& code : codes.code) code = uint8_t(code >> 4);
  return codes;
}

template <bool kNibbles>
struct Dot {
  using Acc = int32_t;
  static HWY_INLINE Acc begin(int32_t offset) { return offset; }
  static HWY_INLINE void add(Acc& acc, Codes codes, const int8_t* x) {
    for (int32_t i = 0; i < 4; ++i) acc += int32_t(codes.code[i]) * x[i];
  }
  static HWY_INLINE OutputInts end(Acc acc, int32_t) {
    return hn::Set(hn::RebindToSigned<OutputTag>(), acc);
  }
};

#elif HWY_TARGET == HWY_AVX3_DL

template <bool kNibbles>
struct Dot {
  using Acc = OutputInts;
  static HWY_INLINE Acc begin(int32_t offset) { return splat_int(offset); }
  static HWY_INLINE void add(Acc& acc, Codes codes, const int8_t* x) {
    acc.raw = _mm512_dpbusd_epi32(acc.raw, codes.raw, broadcast4(x).raw);
  }
  static HWY_INLINE OutputInts end(Acc acc, int32_t) { return acc; }
};

#elif HWY_ARCH_X86

using PairTag = hn::Repartition<int16_t, OutputTag>;  // sums of two products
using Pairs = hn::Vec<PairTag>;

// The pairwise products of unsigned and signed bytes, with saturation at 16 bits.
HWY_INLINE __m128i multiply_pairs(__m128i u, __m128i s) {
  return _mm_maddubs_epi16(u, s);
}
HWY_INLINE __m128i join_pairs(__m128i pairs) {
  return _mm_madd_epi16(pairs, _mm_set1_epi16(1));
}
HWY_INLINE __m128i sizes_of(__m128i bytes) {
  return _mm_abs_epi8(bytes);
}
#if HWY_TARGET <= HWY_AVX2
HWY_INLINE __m256i multiply_pairs(__m256i u, __m256i s) {
  return _mm256_maddubs_epi16(u, s);
}
HWY_INLINE __m256i join_pairs(__m256i pairs) {
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
HWY_INLINE __m256i sizes_of(__m256i bytes) {
  return _mm256_abs_epi8(bytes);
}
#endif
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE __m512i multiply_pairs(__m512i u, __m512i s) {
  return _mm512_maddubs_epi16(u, s);
}
HWY_INLINE __m512i join_pairs(__m512i pairs) {
  return _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
}
HWY_INLINE __m512i sizes_of(__m512i bytes) {
  return _mm512_abs_epi8(bytes);
}
#endif

template <bool kNibbles>
struct Dot;

// A pair of products is at most 2 · 15 · 127 = 3,810 in size, and a block adds eight of them:
// 30,480 fits 16 bits.
template <>
struct Dot<true> {
  using Acc = Pairs;
  static HWY_INLINE Acc begin(int32_t) { return hn::Zero(PairTag()); }
  static HWY_INLINE void add(Acc& acc, Codes codes, const int8_t* x) {
    acc = hn::Add(acc, Pairs{multiply_pairs(codes.raw, broadcast4(x).raw)});
  }
  static HWY_INLINE OutputInts end(Acc acc, int32_t offset) {
    return hn::Add(OutputInts{join_pairs(acc.raw)}, splat_int(offset));
  }
};

// Unsigned bytes would saturate. As signed ones, w = u − 128, |w| · (±x) is at most 2 · 128 · 127 =
// 32,512 a pair; and Σ w · x has the offset in it.
template <>
struct Dot<false> {
  using Acc = OutputInts;
  static HWY_INLINE Acc begin(int32_t) { return splat_int(0); }
  static HWY_INLINE void add(Acc& acc, Codes codes, const int8_t* x) {
    const auto w =
        hn::BitCast(hn::RebindToSigned<CodeTag>(), hn::Xor(codes, hn::Set(CodeTag(), 0x80)));
    const auto signed_x = hn::IfThenElse(hn::Lt(w, hn::Zero(hn::RebindToSigned<CodeTag>())),
                                         hn::Neg(broadcast4(x)), broadcast4(x));
    const OutputInts sums{join_pairs(multiply_pairs(sizes_of(w.raw), signed_x.raw))};
    acc = hn::Add(acc, sums);
  }
  static HWY_INLINE OutputInts end(Acc acc, int32_t) { return acc; }
};

#elif HWY_ARCH_ARM_A64

// Products of signed bytes are at most 128 · 127 in size: one fits 16 bits. The two halves of a
// vector hold the products of two outputs each; they are joined at the end.
template <bool kNibbles>
struct Dot {
  struct Acc {
    int32x4_t low, high;
  };
  static HWY_INLINE Acc begin(int32_t) { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
  static HWY_INLINE void add(Acc& acc, Codes codes, const int8_t* x) {
    const int8x16_t w =
        vreinterpretq_s8_u8(kNibbles ? codes.raw : veorq_u8(codes.raw, vdupq_n_u8(0x80)));
    const int8x16_t four = broadcast4(x).raw;
    acc.low = vpadalq_s16(acc.low, vmull_s8(vget_low_s8(w), vget_low_s8(four)));
    acc.high = vpadalq_s16(acc.high, vmull_s8(vget_high_s8(w), vget_high_s8(four)));
  }
  // Signed bytes, w = u − 128, have the offset in their sums.
  static HWY_INLINE OutputInts end(const Acc& acc, int32_t offset) {
    const OutputInts sums(vpaddq_s32(acc.low, acc.high));
    return kNibbles ? hn::Add(sums, splat_int(offset)) : sums;
  }
};

#else
#error "no integer dot product for this target"
#endif

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
