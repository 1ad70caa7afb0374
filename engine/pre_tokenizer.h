// Cuts a text into the pieces that BPE may not merge across. A rule is named by the model file
// (`tokenizer.ggml.pre`). Every byte of the text is in exactly one piece, also the bytes that are
// not UTF-8: each of those is a character of its own, neither letter, number nor white space. The
// classes of characters are those of the Unicode version of the ICU in use (15.0 for ICU 72).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tinyloop::engine {

class PreTokenizer {
 public:
  // The rule with this name; nullopt if there is none. Rules:
  //   "gpt-2"  's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  static std::optional<PreTokenizer> find(std::string_view name) noexcept;

  // Length in bytes of the first piece of `text`, which is not empty: 1 .. text.size(). Depends on
  // `text` alone, so that a text is cut by asking again for what remains.
  size_t first_piece(std::string_view text) const noexcept { return rule_(text); }

 private:
  using Rule = size_t (*)(std::string_view text) noexcept;
  explicit PreTokenizer(Rule rule) : rule_(rule) {}

  Rule rule_;
};

}  // namespace tinyloop::engine
