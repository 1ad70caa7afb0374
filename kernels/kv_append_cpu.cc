#include "kernels/cpu/targets.h"
#include "kernels/kv_append.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kv_append_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/lanes-inl.h"
#include "kernels/half.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

// Eight numbers as they are stored. FP16 holds sizes up to 65,504: what is larger becomes that,
// what is not a number stays so.
HWY_INLINE void store_numbers(const Lanes& lanes, float* to) {
  store(lanes, to);
}
HWY_INLINE void store_numbers(const Lanes& lanes, hwy::float16_t* to) {
  const auto most = hn::Set(FloatTag(), 65504.0f), least = hn::Neg(most);
  const Lanes bounded = map(
      [=](auto x) TINYLOOP_LAMBDA {  // by comparisons, which leave NaN alone
        return hn::IfThenElse(hn::Gt(x, most), most, hn::IfThenElse(hn::Lt(x, least), least, x));
      },
      lanes);
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2  // Highway would truncate, and make NaN a number
  float values[kLanes];
  store(bounded, values);
  for (int32_t i = 0; i < kLanes; ++i) {
    const uint16_t bits = nearest_half(values[i]);
    std::memcpy(to + i, &bits, sizeof(bits));
  }
#else
  const hn::Rebind<hwy::float16_t, FloatTag> tag;
  repeat<kParts>([&](auto i) TINYLOOP_LAMBDA {
    hn::StoreU(hn::DemoteTo(tag, bounded.part[i]), tag, to + i * kPartLanes);
  });
#endif
}

// to[d · step] = from[d] for d < n.
template <class Number>
HWY_INLINE void append_vector(const float* from, int32_t n, int32_t step, Number* to) {
  for (int32_t d = 0; d < n; d += kLanes) {
    const int32_t count = HWY_MIN(kLanes, n - d);
    Number numbers[kLanes];
    store_numbers(count == kLanes ? load(from + d) : load_first(from + d, count), numbers);
    if (step == 1) {
      std::memcpy(to + d, numbers, size_t(count) * sizeof(Number));
    } else {
      for (int32_t i = 0; i < count; ++i) to[(d + i) * step] = numbers[i];
    }
  }
}

// One row's K and V of all heads → their places in a layer's share of a page.
template <class Number>
HWY_INLINE void append_row_as(const KvLayout& layout, const float* k, const float* v, int32_t place,
                              std::byte* share) {
  auto* numbers = reinterpret_cast<Number*>(share);
  for (int32_t head = 0; head < layout.kv_heads; ++head) {
    append_vector(k + head * layout.head_dim, layout.head_dim, kPagePositions,
                  numbers + layout.key_index(head, place, 0));
    append_vector(v + head * layout.head_dim, layout.head_dim, 1,
                  numbers + layout.value_index(head, place, 0));
  }
}

void append_row(const KvLayout& layout, const float* k, const float* v, int32_t place,
                std::byte* share) {
  if (layout.type == ScalarType::f16) {
    append_row_as<hwy::float16_t>(layout, k, v, place, share);
  } else {
    append_row_as<float>(layout, k, v, place, share);
  }
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"
#include "kernels/cpu/cpu_context.h"

namespace tinyloop::kernels {

HWY_EXPORT(append_row);

void kv_append_cpu(CpuContext& cpu, const KvAppendArgs& args) {
  const KvView& cache = args.cache;
  const KvLayout& layout = cache.layout;
  TINYLOOP_CHECK(args.k.type == ScalarType::f32 && args.v.type == ScalarType::f32);
  TINYLOOP_CHECK(layout.type == ScalarType::f32 || layout.type == ScalarType::f16);
  const auto append = HWY_DYNAMIC_DISPATCH(append_row);
  constexpr int64_t kElementWork = 8;  // keys go to a line of memory each
  const int64_t elements = int64_t{2} * layout.kv_heads * layout.head_dim;
  cpu.for_rows(args.rows, kElementWork * elements, [&](int32_t row) {
    const int32_t position = cache.positions[row];
    const int32_t entry = cache.tables[cache.row_table[row]] + position / kPagePositions;
    append(layout, args.k.f32_row(row), args.v.f32_row(row), position % kPagePositions,
           cache.pages[entry] + cache.layer_offset);
  });
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
