#include "engine/text_decoder.h"

#include <algorithm>

namespace tinyloop::engine {

void TextDecoder::push(std::string_view bytes, std::string& text) {
  for (const char byte : bytes) {
    if (pending_size_ == 0 && static_cast<unsigned char>(byte) < 0x80) {
      text += byte;
      continue;
    }
    pending_[pending_size_++] = byte;
    resolve(text);
  }
}

void TextDecoder::resolve(std::string& text) {
  while (pending_size_ > 0) {
    const std::string_view pending(pending_.data(), pending_size_);
    const Utf8Char c = decode_utf8(pending);
    if (c.status == Utf8Status::incomplete) return;
    text += c.status == Utf8Status::valid ? pending.substr(0, c.length) : kReplacementUtf8;
    std::copy(pending_.begin() + c.length, pending_.begin() + pending_size_, pending_.begin());
    pending_size_ -= c.length;
  }
}

void TextDecoder::flush(std::string& text) {
  if (pending_size_ > 0) text += kReplacementUtf8;
  pending_size_ = 0;
}

}  // namespace tinyloop::engine
