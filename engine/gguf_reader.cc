#include "engine/gguf_reader.h"

#include <limits>

#include "engine/gguf_cursor.h"
#include "engine/gguf_text.h"

namespace tinyloop::engine {

namespace {

bool is_number_array(const GgufValue& value) {
  return value.type == GgufType::array && value.element != GgufType::boolean &&
         scalar_bytes(value.element) != 0;
}

double array_number(const GgufValue& value, uint64_t i) {
  return *to_number(value.element, value.bytes.data() + i * scalar_bytes(value.element));
}

}  // namespace

GgufFile::GgufFile(MappedFile file, GgufHeader header)
    : file_(std::move(file)), header_(std::move(header)) {
  for (size_t i = 0; i < entries().size(); ++i) entry_index_.emplace(entries()[i].key, i);
  for (size_t i = 0; i < tensors().size(); ++i) tensor_index_.emplace(tensors()[i].name, i);
}

base::Result<GgufFile> GgufFile::parse(MappedFile file) {
  try {
    GgufHeader header = parse_gguf_header(file.bytes());
    return GgufFile(std::move(file), std::move(header));
  } catch (const base::Failure& failure) {
    return base::Error{failure.error().code, file.path() + ": " + failure.error().detail};
  }
}

base::Result<GgufFile> GgufFile::open(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  return parse(std::move(*file));
}

base::Result<GgufFile> GgufFile::from_bytes(std::span<const std::byte> bytes, std::string name) {
  return parse(MappedFile::from_bytes(bytes, std::move(name)));
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = entry_index_.find(key);
  return found == entry_index_.end() ? nullptr : &entries()[found->second].value;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors()[found->second];
}

base::Error GgufFile::error(errc code, const std::string& what) const {
  return {code, path() + ": " + what};
}

base::Error GgufFile::key_error(std::string_view key, const std::string& what) const {
  return error(errc::bad_model_file, key_text(key) + ": " + what);
}

base::Error GgufFile::type_error(std::string_view key, std::string_view expected) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return key_error(key, "is missing");
  std::string found(type_name(value->type));
  if (value->type == GgufType::array) found += " of " + std::string(type_name(value->element));
  return key_error(key, "type " + found + ", expected " + std::string(expected));
}

base::Result<int64_t> GgufFile::i64(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return type_error(key, "an integer");
  if (const auto integer = to_integer(value->type, value->bytes.data())) return *integer;
  if (value->type == GgufType::u64) {
    return key_error(key, number_text(*to_number(value->type, value->bytes.data())) +
                              ", expected at most 2^63 - 1");
  }
  return type_error(key, "an integer");
}

base::Result<uint32_t> GgufFile::u32(std::string_view key) const {
  const auto integer = i64(key);
  if (!integer) return integer.error();
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (*integer < 0 || *integer > kMost) {
    return key_error(key, std::to_string(*integer) + ", expected 0 to " + std::to_string(kMost));
  }
  return static_cast<uint32_t>(*integer);
}

base::Result<float> GgufFile::f32(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return type_error(key, "a number");
  const auto number = to_number(value->type, value->bytes.data());
  if (!number) return type_error(key, "a number");
  return static_cast<float>(*number);
}

base::Result<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr || value->type != GgufType::boolean) return type_error(key, "bool");
  return value->bytes[0] != std::byte{0};
}

base::Result<std::string_view> GgufFile::string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr || value->type != GgufType::string) return type_error(key, "string");
  return value->text();
}

base::Result<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr || !value->is_array_of(GgufType::string)) {
    return type_error(key, "array of string");
  }
  std::vector<std::string_view> out;
  out.reserve(value->count);
  GgufCursor cursor(value->bytes);
  for (uint64_t i = 0; i < value->count; ++i) out.push_back(cursor.string());
  return out;
}

base::Result<std::vector<int32_t>> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr || !is_number_array(*value) || value->element == GgufType::f32 ||
      value->element == GgufType::f64) {
    return type_error(key, "array of integers");
  }
  std::vector<int32_t> out;
  out.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    const double number = array_number(*value, i);  // exact where it fits 32 bits
    if (number < std::numeric_limits<int32_t>::min() ||
        number > std::numeric_limits<int32_t>::max()) {
      return key_error(key, "entry " + std::to_string(i) + " is " + number_text(number) +
                                ", expected -2^31 to 2^31 - 1");
    }
    out.push_back(static_cast<int32_t>(number));
  }
  return out;
}

base::Result<std::vector<float>> GgufFile::floats(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr || !is_number_array(*value)) return type_error(key, "array of numbers");
  std::vector<float> out;
  out.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    out.push_back(static_cast<float>(array_number(*value, i)));
  }
  return out;
}

}  // namespace tinyloop::engine
