// A GGUF model file: verified, then held open for lookups and for the weights' upload.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "engine/gguf_header.h"
#include "engine/mapped_file.h"

namespace tinyloop::engine {

// Versions 2 and 3, little-endian. Movable; every view handed out (string_view, data pointers)
// stays valid until the object is destroyed, moves included. Immutable: any thread may call it.
//
// A lookup's error is bad_model_file and names the file, the key, what was found and what was
// expected: the key is missing, has another type, or its value does not fit. Integers of any width
// convert where the value fits; booleans, strings and floats do not turn into integers.
class GgufFile {
 public:
  // Errors: io_error, bad_model_file, unsupported_model (another GGUF version).
  static base::Result<GgufFile> open(const std::string& path);
  // The same from memory; `name` stands for the path in messages.
  static base::Result<GgufFile> from_bytes(std::span<const std::byte> bytes, std::string name);

  const std::string& path() const { return file_.path(); }
  size_t size_bytes() const { return file_.bytes().size(); }
  uint32_t version() const { return header_.version; }
  uint64_t alignment() const { return header_.alignment; }

  const std::vector<GgufEntry>& entries() const { return header_.entries; }   // file order
  const std::vector<GgufTensor>& tensors() const { return header_.tensors; }  // file order
  const GgufValue* find(std::string_view key) const;                          // nullptr: not there
  const GgufTensor* find_tensor(std::string_view name) const;                 // nullptr: not there
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  base::Result<uint32_t> u32(std::string_view key) const;
  base::Result<int64_t> i64(std::string_view key) const;
  base::Result<float> f32(std::string_view key) const;  // an integer or f64 is rounded; may be NaN
  base::Result<bool> boolean(std::string_view key) const;
  base::Result<std::string_view> string(std::string_view key) const;
  // Arrays. The views of `strings` lie in the file; `integers` takes any integer type and refuses
  // values outside int32_t; `floats` takes f32, f64 and integers.
  base::Result<std::vector<std::string_view>> strings(std::string_view key) const;
  base::Result<std::vector<int32_t>> integers(std::string_view key) const;
  base::Result<std::vector<float>> floats(std::string_view key) const;

  // "<path>: <what>" under `code`: for errors found by those who interpret the file.
  base::Error error(errc code, const std::string& what) const;

 private:
  GgufFile(MappedFile file, GgufHeader header);
  static base::Result<GgufFile> parse(MappedFile file);
  base::Error key_error(std::string_view key, const std::string& what) const;
  base::Error type_error(std::string_view key, std::string_view expected) const;

  MappedFile file_;
  GgufHeader header_;
  std::unordered_map<std::string_view, size_t> entry_index_, tensor_index_;
};

}  // namespace tinyloop::engine
