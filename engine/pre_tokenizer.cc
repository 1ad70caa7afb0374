#include "engine/pre_tokenizer.h"

#include <unicode/uchar.h>

#include <cstdint>

#include "engine/utf8.h"

namespace tinyloop::engine {

namespace {

// The classes the rules speak of: \p{L}, \p{N}, \s, and the rest.
enum class CharClass : uint8_t { letter, number, space, other };

struct ClassedChar {
  CharClass kind;
  size_t length;
};

CharClass class_of(char32_t code_point) noexcept {
  const auto c = static_cast<UChar32>(code_point);
  if (u_isUWhiteSpace(c)) return CharClass::space;
  const uint32_t category = U_GET_GC_MASK(c);
  if (category & U_GC_L_MASK) return CharClass::letter;
  if (category & U_GC_N_MASK) return CharClass::number;
  return CharClass::other;
}

ClassedChar first_char(std::string_view text) noexcept {
  const Utf8Char c = decode_utf8(text);
  if (c.status != Utf8Status::valid) return {CharClass::other, 1};
  return {class_of(c.code_point), c.length};
}

// Length of the run of one class that begins `text`, and of its last character.
struct Run {
  size_t length = 0;
  size_t last = 0;
};

Run run_of(std::string_view text, CharClass kind) noexcept {
  Run run;
  while (run.length < text.size()) {
    const ClassedChar c = first_char(text.substr(run.length));
    if (c.kind != kind) break;
    run.length += c.length;
    run.last = c.length;
  }
  return run;
}

// 's|'t|'re|'ve|'m|'ll|'d
size_t contraction(std::string_view text) noexcept {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  return 0;
}

// \s+(?!\S)|\s+ : white space leaves its last character to the word that follows it, unless that
// character is all there is.
size_t white_space(std::string_view text) noexcept {
  const Run run = run_of(text, CharClass::space);
  const bool word_follows = run.length < text.size();
  return word_follows && run.length > run.last ? run.length - run.last : run.length;
}

size_t gpt2_rule(std::string_view text) noexcept {
  if (const size_t length = contraction(text)) return length;
  const std::string_view word = text.substr(text[0] == ' ' ? 1 : 0);
  if (!word.empty()) {
    const CharClass kind = first_char(word).kind;
    if (kind != CharClass::space) {
      return text.size() - word.size() + run_of(word, kind).length;
    }
  }
  return white_space(text);
}

}  // namespace

std::optional<PreTokenizer> PreTokenizer::find(std::string_view name) noexcept {
  if (name == "gpt-2") return PreTokenizer(gpt2_rule);
  return std::nullopt;
}

}  // namespace tinyloop::engine
