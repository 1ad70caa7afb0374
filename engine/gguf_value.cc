#include "engine/gguf_value.h"

#include <bit>
#include <cstring>
#include <limits>

namespace tinyloop::engine {

static_assert(std::endian::native == std::endian::little,
              "values are read as they lie in the file");

namespace {

struct TypeFacts {
  std::string_view name;
  size_t bytes;
};
constexpr TypeFacts kFacts[kGgufTypes] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8},
};

template <class T>
T load(const std::byte* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

std::string_view type_name(GgufType type) noexcept {
  return kFacts[uint32_t(type)].name;
}
size_t scalar_bytes(GgufType type) noexcept {
  return kFacts[uint32_t(type)].bytes;
}

std::optional<int64_t> to_integer(GgufType type, const std::byte* bytes) noexcept {
  switch (type) {
    case GgufType::u8:
      return load<uint8_t>(bytes);
    case GgufType::i8:
      return load<int8_t>(bytes);
    case GgufType::u16:
      return load<uint16_t>(bytes);
    case GgufType::i16:
      return load<int16_t>(bytes);
    case GgufType::u32:
      return load<uint32_t>(bytes);
    case GgufType::i32:
      return load<int32_t>(bytes);
    case GgufType::i64:
      return load<int64_t>(bytes);
    case GgufType::u64: {
      const auto value = load<uint64_t>(bytes);
      if (value > uint64_t{std::numeric_limits<int64_t>::max()}) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> to_number(GgufType type, const std::byte* bytes) noexcept {
  if (type == GgufType::f32) return load<float>(bytes);
  if (type == GgufType::f64) return load<double>(bytes);
  if (type == GgufType::u64) return static_cast<double>(load<uint64_t>(bytes));
  if (const auto integer = to_integer(type, bytes)) return static_cast<double>(*integer);
  return std::nullopt;
}

}  // namespace tinyloop::engine
