// Reads a GGUF header front to back without ever stepping past the end of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tinyloop::engine {

// Every function throws base::Failure(bad_model_file) that names the part being read, the place and
// the bound, when the file is too short for it.
class GgufCursor {
 public:
  explicit GgufCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }

  // What is being read from here on, for messages: "key 'general.name'".
  void enter(std::string part) { part_ = std::move(part); }
  [[noreturn]] void fail(const std::string& what) const;  // "<part>: <what>"

  template <class T>
  T read() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  // A length of 64 bits and that many characters, as a view of the file.
  std::string_view string();
  std::span<const std::byte> take(uint64_t bytes);

  // `count` items of at least `item_bytes` each must still fit; `items` names them ("tensors").
  void require_room(uint64_t count, size_t item_bytes, std::string_view items) const;

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
  std::string part_ = "header";
};

}  // namespace tinyloop::engine
