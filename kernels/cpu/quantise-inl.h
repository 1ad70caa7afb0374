// Activations to 8 bits, 32 at a time: the one place where they are rounded, so that it does not
// matter which op does it.
#if defined(TINYLOOP_KERNELS_CPU_QUANTISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TINYLOOP_KERNELS_CPU_QUANTISE_INL_H_
#undef TINYLOOP_KERNELS_CPU_QUANTISE_INL_H_
#else
#define TINYLOOP_KERNELS_CPU_QUANTISE_INL_H_
#endif

#include <limits>

#include "kernels/cpu/lanes-inl.h"
#include "kernels/row_view.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

inline constexpr int32_t kBlockLanes = QuantisedBlock::kValues / kLanes;  // Lanes in a block: 4

// The largest |x|. Sizes are compared as integers: a NaN is larger than infinity and wins.
HWY_INLINE float largest_size(const Lanes (&x)[kBlockLanes]) {
  const hn::RebindToSigned<FloatTag> tag;
  const auto size_bits = hn::Set(tag, 0x7FFFFFFF);
  auto most = hn::Zero(tag);
  repeat<kBlockLanes>([&](auto j) TINYLOOP_LAMBDA {
    repeat<kParts>([&](auto i) TINYLOOP_LAMBDA {
      most = hn::Max(most, hn::And(hn::BitCast(tag, x[j].part[i]), size_bits));
    });
  });
  const int32_t bits = hn::GetLane(hn::MaxOfLanes(tag, most));
  float size;
  std::memcpy(&size, &bits, sizeof(size));
  return size;
}

HWY_INLINE void quantise_block(const Lanes (&x)[kBlockLanes], QuantisedBlock* to) {
  constexpr float kTiny = 1e-30f;  // below it 127 / size would overflow: such a block becomes 0
  const hn::RebindToSigned<FloatTag> tag;
  const hn::Rebind<int8_t, FloatTag> code_tag;
  const float size = largest_size(x);
  const bool in_range = size > kTiny && size <= std::numeric_limits<float>::max();
  const auto inverse = hn::Set(FloatTag(), in_range ? 127.0f / size : 0.0f);
  auto sums = hn::Zero(tag);
  repeat<kBlockLanes>([&](auto j) TINYLOOP_LAMBDA {
    repeat<kParts>([&](auto i) TINYLOOP_LAMBDA {
      // Where the scale is not finite it alone carries that on; codes stay integers.
      const auto scaled = in_range ? hn::Mul(x[j].part[i], inverse) : inverse;
      const auto codes = hn::NearestInt(scaled);
      sums = hn::Add(sums, codes);
      hn::StoreU(hn::DemoteTo(code_tag, codes), code_tag, to->codes + j * kLanes + i * kPartLanes);
    });
  });
  const int32_t sum = hn::GetLane(hn::SumOfLanes(tag, sums));
  to->scale = size / 127.0f;
  to->scaled_sum = to->scale * float(sum);
  to->minus_8_sums = -8 * sum;
}

// Quantises a row of `cols` values, a multiple of 32. read(k) gives the lanes of values k … k + 7;
// a block's values are all read before the block is written.
template <class Read>
HWY_INLINE void quantise_row(int32_t cols, Read read, QuantisedBlock* to) {
  for (int32_t k = 0; k < cols; k += QuantisedBlock::kValues, ++to) {
    Lanes values[kBlockLanes];
    repeat<kBlockLanes>([&](auto j) TINYLOOP_LAMBDA { values[j] = read(k + j * kLanes); });
    quantise_block(values, to);
  }
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
