#include "kernels/cpu/row_scan.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/targets.h"
#include "kernels/sampling_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_scan.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

using RowTag = hn::ScalableTag<float>;
using RowVector = hn::Vec<RowTag>;

float greatest_of_row(const float* row, size_t count) {
  const RowTag tag;
  const size_t lanes = hn::Lanes(tag);
  const auto limit = hn::Set(tag, std::numeric_limits<float>::infinity());
  auto most = hn::Set(tag, kLeastLogit);
  auto usable = hn::Lt(most, limit);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::LoadU(tag, row + i);
    usable = hn::And(usable, hn::Lt(x, limit));  // false for NaN, too
    most = hn::Max(most, x);
  }
  bool all = hn::AllTrue(tag, usable);
  float greatest = all ? hn::GetLane(hn::MaxOfLanes(tag, most)) : kLeastLogit;
  for (; i < count; ++i) {
    all = all && row[i] < std::numeric_limits<float>::infinity();
    greatest = row[i] > greatest ? row[i] : greatest;
  }
  return all ? greatest : std::numeric_limits<float>::quiet_NaN();
}

// exp_of_negative, operation by operation.
HWY_INLINE RowVector exp_of_vector(RowVector x) {
  const RowTag tag;
  const hn::RebindToSigned<RowTag> int_tag;
  const auto set = [](float value) TINYLOOP_LAMBDA { return hn::Set(RowTag(), value); };
  const auto counts = hn::Ge(x, set(-80.0f));
  const auto round = set(12582912.0f);
  const auto n = hn::Sub(hn::Add(hn::Mul(x, set(1.44269504f)), round), round);
  const auto r =
      hn::Sub(hn::Sub(x, hn::Mul(n, set(0.693359375f))), hn::Mul(n, set(-2.12194440e-4f)));
  auto p = set(0.0013814612f);
  p = hn::Add(hn::Mul(p, r), set(0.008368712f));
  p = hn::Add(hn::Mul(p, r), set(0.04166839f));
  p = hn::Add(hn::Mul(p, r), set(0.16666521f));
  p = hn::Add(hn::Mul(p, r), set(0.49999994f));
  p = hn::Add(hn::Add(hn::Mul(p, hn::Mul(r, r)), r), set(1.0f));
  const auto exponent = hn::Add(hn::ConvertTo(int_tag, n), hn::Set(int_tag, 127));
  return hn::IfThenElseZero(counts, hn::Mul(p, hn::BitCast(tag, hn::ShiftLeft<23>(exponent))));
}

void scaled_row(const float* row, size_t count, float greatest, float temperature, float* out) {
  const RowTag tag;
  const size_t lanes = hn::Lanes(tag);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto behind = hn::Sub(hn::LoadU(tag, row + i), hn::Set(tag, greatest));
    hn::StoreU(hn::Div(behind, hn::Set(tag, temperature)), tag, out + i);
  }
  for (; i < count; ++i) out[i] = (row[i] - greatest) / temperature;
}

void exp_row(const float* row, size_t count, float greatest, float temperature, float* out) {
  const RowTag tag;
  const size_t lanes = hn::Lanes(tag);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto behind = hn::Sub(hn::LoadU(tag, row + i), hn::Set(tag, greatest));
    hn::StoreU(exp_of_vector(hn::Div(behind, hn::Set(tag, temperature))), tag, out + i);
  }
  for (; i < count; ++i) out[i] = exp_of_negative((row[i] - greatest) / temperature);
}

#if HWY_TARGET == HWY_SCALAR

size_t noise_of_vectors(uint64_t, uint64_t, uint32_t, size_t, uint32_t*) {
  return 0;
}

#else

using WordTag = hn::ScalableTag<uint32_t>;
using Words = hn::Vec<WordTag>;

// The two halves of each product.
struct Products {
  Words high, low;
};

HWY_INLINE Products multiply_words(Words a, uint32_t by) {
  const WordTag tag;
  const hn::Repartition<uint64_t, WordTag> wide;
  const auto factor = hn::Set(tag, by);
  const auto even = hn::MulEven(a, factor);
  const auto odd = hn::MulEven(hn::BitCast(tag, hn::ShiftRight<32>(hn::BitCast(wide, a))), factor);
  const auto low_half = hn::Set(wide, 0xFFFFFFFFu);
  return {hn::BitCast(tag, hn::Or(hn::ShiftRight<32>(even), hn::AndNot(low_half, odd))),
          hn::BitCast(tag, hn::Or(hn::And(even, low_half), hn::ShiftLeft<32>(odd)))};
}

// base::philox, a block a lane. How many blocks have been made: whole vectors of them.
size_t noise_of_vectors(uint64_t seed, uint64_t position, uint32_t first, size_t blocks,
                        uint32_t* words) {
  const WordTag tag;
  const size_t lanes = hn::Lanes(tag);
  size_t done = 0;
  for (; done + lanes <= blocks; done += lanes) {
    Words c0 = hn::Set(tag, uint32_t(position)), c1 = hn::Set(tag, uint32_t(position >> 32));
    Words c2 = hn::Iota(tag, first + uint32_t(done));
    Words c3 = hn::Set(tag, uint32_t(base::RandomDomain::sampling));
    auto key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
    for (int round = 0; round < base::kPhiloxRounds; ++round) {
      const Products p0 = multiply_words(c0, base::kPhiloxMultiplier0);
      const Products p1 = multiply_words(c2, base::kPhiloxMultiplier1);
      c0 = hn::Xor(hn::Xor(p1.high, c1), hn::Set(tag, key0));
      c2 = hn::Xor(hn::Xor(p0.high, c3), hn::Set(tag, key1));
      c1 = p1.low;
      c3 = p0.low;
      key0 += base::kPhiloxWeyl0;
      key1 += base::kPhiloxWeyl1;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, tag, words + 4 * done);
  }
  return done;
}

#endif

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace tinyloop::kernels {

HWY_EXPORT(greatest_of_row);
HWY_EXPORT(scaled_row);
HWY_EXPORT(exp_row);
HWY_EXPORT(noise_of_vectors);

float greatest_usable(std::span<const float> row) {
  return HWY_DYNAMIC_DISPATCH(greatest_of_row)(row.data(), row.size());
}

void scale_row(std::span<const float> row, float greatest, float temperature, float* out) {
  HWY_DYNAMIC_DISPATCH(scaled_row)(row.data(), row.size(), greatest, temperature, out);
}

void exp_of_row(std::span<const float> row, float greatest, float temperature, float* out) {
  HWY_DYNAMIC_DISPATCH(exp_row)(row.data(), row.size(), greatest, temperature, out);
}

void noise_of_blocks(uint64_t seed, uint64_t position, uint32_t first, size_t blocks,
                     uint32_t* words) {
  size_t done = HWY_DYNAMIC_DISPATCH(noise_of_vectors)(seed, position, first, blocks, words);
  for (; done < blocks; ++done) {
    const auto block = noise_words(seed, position, first + uint32_t(done));
    std::copy(block.begin(), block.end(), words + done * block.size());
  }
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
