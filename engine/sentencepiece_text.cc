#include "engine/sentencepiece_text.h"

namespace tinyloop::engine {

namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  result.reserve(text.size());
  size_t done = 0;
  for (size_t at; (at = text.find(from, done)) != std::string_view::npos; done = at + from.size()) {
    result.append(text.substr(done, at - done)).append(to);
  }
  return result.append(text.substr(done));
}

}  // namespace

std::string escape_spaces(std::string_view text) {
  return replace_all(text, " ", kSpaceSymbol);
}

std::string unescape_spaces(std::string_view text) {
  return replace_all(text, kSpaceSymbol, " ");
}

std::optional<uint8_t> parse_byte_piece(std::string_view text) noexcept {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const size_t high = kDigits.find(text[3]), low = kDigits.find(text[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
  return static_cast<uint8_t>(high << 4 | low);
}

}  // namespace tinyloop::engine
