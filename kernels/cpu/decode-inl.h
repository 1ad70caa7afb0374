// Decoding of weight blocks into lanes, one type a weight type. Every value is exact or rounded
// once (code · scale is exact in f32), so it is the same on every target and in every op.
//
// A decoder has kValues, kBytes (of one block) and block(from, out), which fills kValues / 8 lane
// vectors in order of k; types with blocks of 8 also have first(from, n, out) for a row's end.
#if defined(TINYLOOP_KERNELS_CPU_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TINYLOOP_KERNELS_CPU_DECODE_INL_H_
#undef TINYLOOP_KERNELS_CPU_DECODE_INL_H_
#else
#define TINYLOOP_KERNELS_CPU_DECODE_INL_H_
#endif

#include <cstddef>

#include "kernels/cpu/lanes-inl.h"
#include "kernels/weight.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

// One FP16 number, at an address that is a multiple of 2.
HWY_INLINE Lanes splat_half(const std::byte* from) {
  const hn::FixedTag<hwy::float16_t, 1> half_tag;
  const auto half = hn::Load(half_tag, reinterpret_cast<const hwy::float16_t*>(from));
  return splat(hn::GetLane(hn::PromoteTo(hn::FixedTag<float, 1>(), half)));
}

// Eight values of a 16-bit floating-point type.
template <class T>
HWY_INLINE Lanes load_narrow(const T* from) {
  const hn::Rebind<T, FloatTag> narrow_tag;
  return build([&](int32_t i) TINYLOOP_LAMBDA {
    return hn::PromoteTo(FloatTag(), hn::LoadU(narrow_tag, from + i * kPartLanes));
  });
}

// The codes of one lane vector's part, as integers.
template <class Code>
HWY_INLINE auto load_codes(const std::byte* from) {
  const hn::Rebind<Code, FloatTag> tag;
  return hn::PromoteTo(hn::Rebind<int32_t, FloatTag>(),
                       hn::LoadU(tag, reinterpret_cast<const Code*>(from)));
}

template <class T>
struct DecodeFloat {
  static constexpr int32_t kValues = kLanes;
  static constexpr int32_t kBytes = kLanes * int32_t(sizeof(T));

  static HWY_INLINE void block(const std::byte* from, Lanes* out) {
    const T* values = reinterpret_cast<const T*>(from);
    if constexpr (sizeof(T) == sizeof(float)) {
      *out = load(values);
    } else {
      *out = load_narrow(values);
    }
  }
  static HWY_INLINE void first(const std::byte* from, int32_t n, Lanes* out) {
    alignas(16) std::byte whole[size_t(kBytes)] = {};
    std::memcpy(whole, from, size_t(n) * sizeof(T));
    block(whole, out);
  }
};

// Low halves of the 16 code bytes are values 0 .. 15, high halves values 16 .. 31.
// `finish` turns the codes of a lane vector into values.
template <class Finish>
HWY_INLINE void decode_nibbles(const std::byte* codes, Lanes* out, Finish finish) {
  const auto low_bits = hn::Set(hn::Rebind<int32_t, FloatTag>(), 15);
  repeat<2>([&](auto half) TINYLOOP_LAMBDA {
    repeat<kParts>([&](auto i) TINYLOOP_LAMBDA {
      const auto both = load_codes<uint8_t>(codes + half * kLanes + i * kPartLanes);
      out[half].part[i] = finish(hn::ConvertTo(FloatTag(), hn::And(both, low_bits)));
      out[2 + half].part[i] = finish(hn::ConvertTo(FloatTag(), hn::ShiftRight<4>(both)));
    });
  });
}

struct DecodeQ4_0 {
  static constexpr int32_t kValues = 32, kBytes = 18;
  static HWY_INLINE void block(const std::byte* from, Lanes* out) {
    const auto scale = splat_half(from).part[0];
    const auto offset = hn::Mul(scale, hn::Set(FloatTag(), -8.0f));
    decode_nibbles(from + 2, out,
                   [=](auto code) TINYLOOP_LAMBDA { return hn::MulAdd(code, scale, offset); });
  }
};

struct DecodeQ4_1 {
  static constexpr int32_t kValues = 32, kBytes = 20;
  static HWY_INLINE void block(const std::byte* from, Lanes* out) {
    const auto scale = splat_half(from).part[0];
    const auto minimum = splat_half(from + 2).part[0];
    decode_nibbles(from + 4, out,
                   [=](auto code) TINYLOOP_LAMBDA { return hn::MulAdd(code, scale, minimum); });
  }
};

struct DecodeQ8_0 {
  static constexpr int32_t kValues = 32, kBytes = 34;
  static HWY_INLINE void block(const std::byte* from, Lanes* out) {
    const auto scale = splat_half(from).part[0];
    repeat<4>([&](auto j) TINYLOOP_LAMBDA {
      out[j] = build([&](int32_t i) TINYLOOP_LAMBDA {
        const std::byte* codes = from + 2 + j * kLanes + i * kPartLanes;
        return hn::Mul(hn::ConvertTo(FloatTag(), load_codes<int8_t>(codes)), scale);
      });
    });
  }
};

// Calls body(lanes, index, n) for the row's values in order: lanes 0 .. n − 1 are values index ….
template <class Decoder, class Body>
HWY_INLINE void decode_lanes(const std::byte* row, int32_t cols, Body body) {
  constexpr int32_t kVectors = Decoder::kValues / kLanes;
  const int32_t blocks = cols / Decoder::kValues;
  for (int32_t b = 0; b < blocks; ++b) {
    Lanes values[kVectors];
    Decoder::block(row + size_t(b) * Decoder::kBytes, values);
    repeat<kVectors>([&](auto j) TINYLOOP_LAMBDA {
      body(values[j], b * Decoder::kValues + j * kLanes, kLanes);
    });
  }
  if constexpr (kVectors == 1) {
    if (const int32_t rest = cols - blocks * kLanes; rest > 0) {
      Lanes values;
      Decoder::first(row + size_t(blocks) * Decoder::kBytes, rest, &values);
      body(values, blocks * kLanes, rest);
    }
  }
}

// Calls body(decoder) with the decoder of `type`.
template <class Body>
HWY_INLINE void with_decoder(WeightType type, Body body) {
  switch (type) {
    case WeightType::f32:
      return body(DecodeFloat<float>());
    case WeightType::f16:
      return body(DecodeFloat<hwy::float16_t>());
    case WeightType::bf16:
      return body(DecodeFloat<hwy::bfloat16_t>());
    case WeightType::q4_0:
      return body(DecodeQ4_0());
    case WeightType::q4_1:
      return body(DecodeQ4_1());
    case WeightType::q8_0:
      return body(DecodeQ8_0());
  }
}

template <class Decoder>
HWY_INLINE void decode_row(const std::byte* row, int32_t cols, float* out) {
  decode_lanes<Decoder>(row, cols,
                        [out](const Lanes& values, int32_t k, int32_t n) TINYLOOP_LAMBDA {
                          if (n == kLanes) {
                            store(values, out + k);
                          } else {
                            store_first(values, out + k, n);
                          }
                        });
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
