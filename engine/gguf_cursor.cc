#include "engine/gguf_cursor.h"

namespace tinyloop::engine {

void GgufCursor::fail(const std::string& what) const {
  throw base::Failure(errc::bad_model_file, part_ + ": " + what);
}

std::string_view GgufCursor::string() {
  const auto length = read<uint64_t>();
  const auto text = take(length);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

std::span<const std::byte> GgufCursor::take(uint64_t bytes) {
  if (bytes > remaining()) {
    fail(std::to_string(bytes) + " bytes at offset " + std::to_string(offset_) +
         " reach past the end of the file at " + std::to_string(bytes_.size()));
  }
  const auto taken = bytes_.subspan(offset_, bytes);
  offset_ += bytes;
  return taken;
}

void GgufCursor::require_room(uint64_t count, size_t item_bytes, std::string_view items) const {
  const uint64_t most = remaining() / item_bytes;
  if (count > most) {
    fail(std::to_string(count) + " " + std::string(items) +
         ", but the rest of the file has room for " + std::to_string(most) + " at most");
  }
}

}  // namespace tinyloop::engine
