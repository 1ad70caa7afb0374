// One metadata value of a GGUF file, as a view of the file's bytes.
// Source of the layout: the GGUF specification, versions 2 and 3, little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tinyloop::engine {

enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
inline constexpr uint32_t kGgufTypes = 13;

std::string_view type_name(GgufType type) noexcept;  // "u32", "string", …

// Bytes of one value; 0 for strings and arrays, whose length is in the file.
size_t scalar_bytes(GgufType type) noexcept;

// `bytes` are the value itself: a scalar's bytes, a string's characters, or an array's elements as
// they lie in the file (strings and arrays inside an array each with their header). They belong to
// the file and were verified when it was opened.
struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;  // of an array
  uint64_t count = 0;               // elements of an array
  std::span<const std::byte> bytes;

  bool is_array_of(GgufType wanted) const { return type == GgufType::array && element == wanted; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

// An integer of any width. nullopt: not an integer, or above the range of int64_t.
std::optional<int64_t> to_integer(GgufType type, const std::byte* bytes) noexcept;

// A float of either width, or an integer. nullopt: neither.
std::optional<double> to_number(GgufType type, const std::byte* bytes) noexcept;

}  // namespace tinyloop::engine
