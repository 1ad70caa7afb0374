// Cuts a text into the pieces that BPE may not merge across. Every byte of the text is in exactly
// one piece, also the bytes that are not UTF-8: each of those is a character of its own, neither
// letter, number nor white space. \s is the Unicode property White_Space; the classes of characters
// are those of the Unicode version of the ICU in use (15.0 for ICU 72).
#pragma once

#include <cstddef>
#include <string_view>

namespace tinyloop::engine {

// Length in bytes of the first piece of `text`, which is not empty: 1 .. text.size(). Depends on
// `text` alone, so that a text is cut by asking again for what remains; all the pieces of a text
// together cost time in proportion to its length.
using PreTokenizer = size_t (*)(std::string_view text) noexcept;

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t gpt2_piece(std::string_view text) noexcept;

// Each \p{N} is a piece; what lies between them is cut as by gpt2_piece, each part on its own.
size_t smollm_piece(std::string_view text) noexcept;

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
size_t llama3_piece(std::string_view text) noexcept;

// As llama3_piece, with \p{N} in place of \p{N}{1,3}.
size_t qwen2_piece(std::string_view text) noexcept;

}  // namespace tinyloop::engine
