#include "engine/gguf_text.h"

#include <cmath>
#include <cstdio>

namespace tinyloop::engine {

std::string printable(std::string_view text) {
  constexpr size_t kLongest = 96;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  if (text.size() > kLongest) out += "...";
  return out;
}

std::string quoted(std::string_view text) {
  return "'" + printable(text) + "'";
}

std::string shape_text(std::span<const uint64_t> dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != 0) out += ", ";
    out += std::to_string(dims[i]);
  }
  return out + "]";
}

std::string number_text(double value) {
  char text[32];
  const bool whole = std::abs(value) < 1e15 && value == std::trunc(value);
  std::snprintf(text, sizeof text, whole ? "%.0f" : "%.7g", value);
  return text;
}

std::string key_text(std::string_view key) {
  return "key " + quoted(key);
}
std::string tensor_text(std::string_view name) {
  return "tensor " + quoted(name);
}

}  // namespace tinyloop::engine
