// Text of a token stream: takes the bytes of one token after another and gives out the characters
// they complete. Never half a character: what is given out is valid UTF-8 at any moment, and all
// of it together equals sanitise_utf8 of all the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "engine/utf8.h"

namespace tinyloop::engine {

class TextDecoder {
 public:
  // Appends to `text` what the next bytes complete. Allocates only if `text` has to grow.
  void push(std::string_view bytes, std::string& text);

  // The end: a cut character becomes one U+FFFD. The decoder is then as new.
  void flush(std::string& text);

  // Upper bound of what one push of `bytes` bytes, or a flush, appends.
  static constexpr size_t max_output(size_t bytes) {
    return (bytes + kMaxPending) * kReplacementUtf8.size();
  }

 private:
  static constexpr size_t kMaxPending = 3;  // the longest incomplete character

  void resolve(std::string& text);

  std::array<char, kMaxPending + 1> pending_{};
  size_t pending_size_ = 0;
};

}  // namespace tinyloop::engine
