#include "engine/gguf_header.h"

#include <bit>
#include <string>
#include <unordered_set>

#include "engine/gguf_cursor.h"
#include "engine/gguf_text.h"

namespace tinyloop::engine {

namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kOldestVersion = 2, kNewestVersion = 3;
// The least a part of the header can take: bounds the counts before anything is allocated.
constexpr size_t kLeastEntryBytes = 8 + 1 + 4 + 1;           // key, type, value
constexpr size_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, dims, type, offset
constexpr size_t kStringHeaderBytes = 8, kArrayHeaderBytes = 12;

uint32_t read_version(GgufCursor& cursor) {
  const auto magic = cursor.read<uint32_t>();
  if (magic != kMagic) {
    const std::string_view found(reinterpret_cast<const char*>(&magic), sizeof magic);
    cursor.fail("magic " + quoted(found) + ", expected 'GGUF'");
  }
  const auto version = cursor.read<uint32_t>();
  if (version < kOldestVersion || version > kNewestVersion) {
    const bool swapped = version != 0 && (version & 0xffff) == 0;
    throw base::Failure(errc::unsupported_model, "header: GGUF version " + std::to_string(version) +
                                                     (swapped ? " (a big-endian file)" : "") +
                                                     ", expected " +
                                                     std::to_string(kOldestVersion) + " or " +
                                                     std::to_string(kNewestVersion));
  }
  return version;
}

GgufType read_type(GgufCursor& cursor) {
  const auto type = cursor.read<uint32_t>();
  if (type >= kGgufTypes) {
    cursor.fail("value type " + std::to_string(type) + ", expected 0 to " +
                std::to_string(kGgufTypes - 1));
  }
  return static_cast<GgufType>(type);
}

void check_booleans(const GgufCursor& cursor, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    if (byte > std::byte{1}) {
      cursor.fail("bool value " + std::to_string(std::to_integer<int>(byte)) + ", expected 0 or 1");
    }
  }
}

GgufValue read_array(GgufCursor& cursor, int depth);

// Steps over one element of an array whose elements carry their own length.
void skip_element(GgufCursor& cursor, GgufType element, int depth) {
  if (element == GgufType::string) {
    cursor.string();
  } else {
    read_array(cursor, depth + 1);
  }
}

GgufValue read_array(GgufCursor& cursor, int depth) {
  if (depth > kGgufArrayDepth) {
    cursor.fail("arrays nested more than " + std::to_string(kGgufArrayDepth) + " deep");
  }
  GgufValue value;
  value.type = GgufType::array;
  value.element = read_type(cursor);
  value.count = cursor.read<uint64_t>();
  if (const size_t bytes = scalar_bytes(value.element); bytes != 0) {
    cursor.require_room(value.count, bytes, "array elements");
    value.bytes = cursor.take(value.count * bytes);
    if (value.element == GgufType::boolean) check_booleans(cursor, value.bytes);
    return value;
  }
  const bool strings = value.element == GgufType::string;
  cursor.require_room(value.count, strings ? kStringHeaderBytes : kArrayHeaderBytes,
                      "array elements");
  GgufCursor begin = cursor;
  for (uint64_t i = 0; i < value.count; ++i) skip_element(cursor, value.element, depth);
  value.bytes = begin.take(cursor.offset() - begin.offset());
  return value;
}

GgufValue read_value(GgufCursor& cursor) {
  const GgufType type = read_type(cursor);
  if (type == GgufType::array) return read_array(cursor, 1);
  GgufValue value;
  value.type = type;
  if (type == GgufType::string) {
    const std::string_view text = cursor.string();
    value.bytes = std::as_bytes(std::span(text.data(), text.size()));
  } else {
    value.bytes = cursor.take(scalar_bytes(type));
    if (type == GgufType::boolean) check_booleans(cursor, value.bytes);
  }
  return value;
}

// A key or a tensor's name: 1 to `most` bytes.
std::string_view read_name(GgufCursor& cursor, std::string_view kind, uint64_t number,
                           size_t most) {
  cursor.enter(std::string(kind) + " number " + std::to_string(number));
  const std::string_view name = cursor.string();
  if (name.empty() || name.size() > most) {
    cursor.fail("name of " + std::to_string(name.size()) + " bytes, expected 1 to " +
                std::to_string(most));
  }
  cursor.enter(std::string(kind) + " " + quoted(name));
  return name;
}

void read_entries(GgufCursor& cursor, uint64_t count, GgufHeader& header) {
  std::unordered_set<std::string_view> seen;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view key = read_name(cursor, "key", i, kGgufKeyBytes);
    if (!seen.insert(key).second) cursor.fail("appears twice");
    header.entries.push_back({key, read_value(cursor)});
  }
}

void read_tensors(GgufCursor& cursor, uint64_t count, GgufHeader& header) {
  std::unordered_set<std::string_view> seen;
  for (uint64_t i = 0; i < count; ++i) {
    GgufTensor tensor;
    tensor.name = read_name(cursor, "tensor", i, kGgufTensorNameBytes);
    if (!seen.insert(tensor.name).second) cursor.fail("appears twice");
    const auto dims = cursor.read<uint32_t>();
    if (dims < 1 || dims > kGgufDims) {
      cursor.fail(std::to_string(dims) + " dimensions, expected 1 to " + std::to_string(kGgufDims));
    }
    for (uint32_t d = 0; d < dims; ++d) tensor.dims.push_back(cursor.read<uint64_t>());
    tensor.type = cursor.read<uint32_t>();
    tensor.offset = cursor.read<uint64_t>();
    measure_tensor(tensor);
    header.tensors.push_back(std::move(tensor));
  }
}

uint64_t find_alignment(const GgufHeader& header) {
  constexpr std::string_view kKey = "general.alignment";
  for (const GgufEntry& entry : header.entries) {
    if (entry.key != kKey) continue;
    const auto value = to_integer(entry.value.type, entry.value.bytes.data());
    if (value && *value >= int64_t{kGgufMinAlignment} && *value <= int64_t{kGgufMaxAlignment} &&
        std::has_single_bit(static_cast<uint64_t>(*value))) {
      return static_cast<uint64_t>(*value);
    }
    const std::string found = value ? std::to_string(*value)
                                    : "a value of type " + std::string(type_name(entry.value.type));
    throw base::Failure(errc::bad_model_file, key_text(kKey) + ": " + found +
                                                  ", expected a power of two from " +
                                                  std::to_string(kGgufMinAlignment) + " to " +
                                                  std::to_string(kGgufMaxAlignment));
  }
  return kGgufDefaultAlignment;
}

}  // namespace

GgufHeader parse_gguf_header(std::span<const std::byte> file) {
  GgufCursor cursor(file);
  GgufHeader header;
  header.version = read_version(cursor);
  const auto tensors = cursor.read<uint64_t>();
  const auto entries = cursor.read<uint64_t>();
  cursor.require_room(tensors, kLeastTensorBytes, "tensors");
  cursor.require_room(entries, kLeastEntryBytes, "keys");
  read_entries(cursor, entries, header);
  read_tensors(cursor, tensors, header);
  header.alignment = find_alignment(header);

  const uint64_t data_start =
      (cursor.offset() + header.alignment - 1) / header.alignment * header.alignment;
  const auto section = file.subspan(std::min<uint64_t>(data_start, file.size()));
  place_tensors(header.tensors, section, header.alignment);
  return header;
}

}  // namespace tinyloop::engine
