// How SentencePiece spells texts in its vocabularies: U+2581 stands for a space, "<0x0A>" is the
// token of a byte.
// Source: Kudo and Richardson, "SentencePiece: a simple and language independent subword tokenizer
// and detokenizer for neural text processing", EMNLP 2018, section 3.2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tinyloop::engine {

inline constexpr std::string_view kSpaceSymbol = "\u2581";

// What SentencePiece writes for an unknown token when decoding.
inline constexpr std::string_view kUnknownSurface = " \u2047 ";

// Each ' ' as kSpaceSymbol; each kSpaceSymbol as ' '.
std::string escape_spaces(std::string_view text);
std::string unescape_spaces(std::string_view text);

// The byte of "<0x00>" to "<0xFF>", capital letters alone; nullopt for all else.
std::optional<uint8_t> parse_byte_piece(std::string_view text) noexcept;

}  // namespace tinyloop::engine
