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

bool begins_with(std::string_view text, CharClass kind) noexcept {
  return !text.empty() && first_char(text).kind == kind;
}

// Length of the run of one class that begins `text`, of at most `most` characters, and of its last
// character.
struct Run {
  size_t length = 0;
  size_t last = 0;
};

Run run_of(std::string_view text, CharClass kind, size_t most = SIZE_MAX) noexcept {
  Run run;
  for (size_t count = 0; count < most && run.length < text.size(); ++count) {
    const ClassedChar c = first_char(text.substr(run.length));
    if (c.kind != kind) break;
    run.length += c.length;
    run.last = c.length;
  }
  return run;
}

constexpr std::string_view kContractions[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

size_t contraction(std::string_view text) noexcept {
  for (const std::string_view ending : kContractions) {
    if (text.starts_with(ending)) return ending.size();
  }
  return 0;
}

// Length of the character at the beginning of `text` that equals the ASCII letter but for its
// case, or 0. Besides the letter's own two forms there is U+017F, which folds to s.
size_t folded_letter(std::string_view text, char letter) noexcept {
  constexpr std::string_view kLongS = "\u017F";
  if (text.empty()) return 0;
  if (letter == 's' && text.starts_with(kLongS)) return kLongS.size();
  const char lower = text[0] >= 'A' && text[0] <= 'Z' ? static_cast<char>(text[0] + 32) : text[0];
  return lower == letter ? 1 : 0;
}

size_t folded_length(std::string_view text, std::string_view letters) noexcept {
  size_t length = 0;
  for (const char letter : letters) {
    const size_t step = folded_letter(text.substr(length), letter);
    if (step == 0) return 0;
    length += step;
  }
  return length;
}

// (?i: ...) of the same endings.
size_t contraction_in_any_case(std::string_view text) noexcept {
  if (text[0] != '\'') return 0;
  for (const std::string_view ending : kContractions) {
    if (const size_t length = folded_length(text.substr(1), ending.substr(1))) return 1 + length;
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

// \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line end of the white space, if it has one.
size_t lines_or_white_space(std::string_view text) noexcept {
  const std::string_view space = text.substr(0, run_of(text, CharClass::space).length);
  const size_t line_end = space.find_last_of("\r\n");
  return line_end == std::string_view::npos ? white_space(text) : line_end + 1;
}

// The rule of Llama 3; \p{N}{1,digits}.
size_t line_rule(std::string_view text, size_t digits) noexcept {
  if (const size_t length = contraction_in_any_case(text)) return length;
  const ClassedChar first = first_char(text);
  if (first.kind == CharClass::letter) return run_of(text, CharClass::letter).length;
  if (first.kind == CharClass::number) return run_of(text, CharClass::number, digits).length;
  const std::string_view after = text.substr(first.length);
  const bool line_end = text[0] == '\r' || text[0] == '\n';
  if (!line_end && begins_with(after, CharClass::letter)) {
    return first.length + run_of(after, CharClass::letter).length;
  }
  const size_t blank = text[0] == ' ' ? 1 : 0;
  if (const size_t signs = run_of(text.substr(blank), CharClass::other).length) {
    const size_t end = text.find_first_not_of("\r\n", blank + signs);
    return end == std::string_view::npos ? text.size() : end;
  }
  return lines_or_white_space(text);
}

}  // namespace

size_t gpt2_piece(std::string_view text) noexcept {
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

size_t smollm_piece(std::string_view text) noexcept {
  const ClassedChar first = first_char(text);
  if (first.kind == CharClass::number) return first.length;
  if (first.kind != CharClass::space) return gpt2_piece(text);
  // A number ends the part that the pattern sees: all white space before it is one piece.
  const size_t space = run_of(text, CharClass::space).length;
  return begins_with(text.substr(space), CharClass::number) ? space : gpt2_piece(text);
}

size_t llama3_piece(std::string_view text) noexcept {
  return line_rule(text, 3);
}

size_t qwen2_piece(std::string_view text) noexcept {
  return line_rule(text, 1);
}

}  // namespace tinyloop::engine
