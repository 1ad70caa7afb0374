// The byte-level alphabet of GPT-2: each byte has one printable character, so that vocabularies and
// merge lists over arbitrary bytes are plain text. Bytes '!'..'~', 0xA1..0xAC and 0xAE..0xFF stand
// for themselves; the other 68, in ascending order, are U+0100, U+0101, ….
// Source: Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tinyloop::engine {

char32_t byte_to_symbol(uint8_t byte) noexcept;
std::optional<uint8_t> symbol_to_byte(char32_t symbol) noexcept;

// The bytes that a text of symbols stands for; nullopt if a character is not in the alphabet.
std::optional<std::string> decode_byte_level(std::string_view symbols);

// The inverse: any bytes as a text of symbols.
std::string encode_byte_level(std::string_view bytes);

}  // namespace tinyloop::engine
