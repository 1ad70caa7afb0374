#include "stress/fuzz/gguf_parts.h"

#include "base/error.h"
#include "engine/gguf_header.h"

namespace tinyloop::fuzz {

namespace {

using engine::GgufType;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string raw_value(const engine::GgufValue& value) {
  std::string out;
  if (value.type == GgufType::string) put(out, uint64_t{value.bytes.size()});
  if (value.type == GgufType::array) {
    put(out, static_cast<uint32_t>(value.element));
    put(out, value.count);
  }
  return out.append(value.text());
}

void pad(std::string& out, uint64_t alignment) {
  while (out.size() % alignment != 0) out.push_back('\0');
}

}  // namespace

std::string string_value(const std::string& text) {
  std::string out;
  put(out, uint64_t{text.size()});
  return out + text;
}

std::optional<GgufParts> split_gguf(std::span<const std::byte> bytes) try {
  const engine::GgufHeader header = engine::parse_gguf_header(bytes);
  GgufParts parts;
  parts.version = header.version;
  parts.alignment = header.alignment;
  for (const engine::GgufEntry& entry : header.entries) {
    parts.entries.push_back(
        {std::string(entry.key), static_cast<uint32_t>(entry.value.type), raw_value(entry.value)});
  }
  for (const engine::GgufTensor& tensor : header.tensors) {
    parts.tensors.push_back({std::string(tensor.name), tensor.dims, tensor.type, tensor.offset});
  }
  if (!header.tensors.empty()) {
    const engine::GgufTensor& any = header.tensors.front();
    const std::byte* section = any.data - any.offset;
    parts.data.assign(reinterpret_cast<const char*>(section),
                      static_cast<size_t>(bytes.data() + bytes.size() - section));
  }
  return parts;
} catch (const tinyloop::base::Failure&) {
  return std::nullopt;
}

std::string join_gguf(const GgufParts& parts) {
  std::string out = "GGUF";
  put(out, parts.version);
  put(out, uint64_t{parts.tensors.size()});
  put(out, uint64_t{parts.entries.size()});
  for (const GgufParts::Entry& entry : parts.entries) {
    out += string_value(entry.key);
    put(out, entry.type);
    out += entry.value;
  }
  for (const GgufParts::Tensor& tensor : parts.tensors) {
    out += string_value(tensor.name);
    put(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) put(out, dim);
    put(out, tensor.type);
    put(out, tensor.offset);
  }
  pad(out, parts.alignment);
  return out + parts.data;
}

}  // namespace tinyloop::fuzz
