// UTF-8, decoded with validation. "Well-formed" and "maximal subpart" are those of the Unicode
// Standard 15.0, chapter 3.9: table 3-7 and "U+FFFD Substitution of Maximal Subparts".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tinyloop::engine {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

enum class Utf8Status : uint8_t {
  valid,       // a well-formed character
  invalid,     // a maximal subpart of an ill-formed sequence, or a byte that begins nothing
  incomplete,  // all the bytes given, and more bytes could make them a well-formed character
};

struct Utf8Char {
  char32_t code_point = kReplacementCharacter;  // U+FFFD unless valid
  uint8_t length = 0;                           // 1 .. 4 bytes
  Utf8Status status = Utf8Status::invalid;
};

// The first character of `bytes`, which are not empty.
Utf8Char decode_utf8(std::string_view bytes) noexcept;

// Appends a scalar value (at most U+10FFFF, no surrogate).
void append_utf8(char32_t code_point, std::string& out);

bool is_valid_utf8(std::string_view bytes) noexcept;

// The text of `bytes`: each maximal subpart of an ill-formed sequence, also a cut one at the end,
// becomes one U+FFFD; all else stays as it is.
std::string sanitise_utf8(std::string_view bytes);

}  // namespace tinyloop::engine
