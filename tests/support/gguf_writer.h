// Writes GGUF files for tests: good ones, and good ones with one thing broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/weight.h"

namespace tinyloop::testing {

// A file under testing::TempDir() that is removed with the last reference to it.
class TempFile {
 public:
  // The name is unique among all processes; `label` makes it recognisable.
  explicit TempFile(const std::string& label);
  ~TempFile();
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Nothing is checked: a test may ask for nonsense. Setting a key or tensor that is there replaces
// it in its place.
class GgufWriter {
 public:
  // A metadata value as it lies in the file.
  struct Entry {
    std::string key;
    uint32_t type = 0;
    std::vector<std::byte> bytes;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // file order: inputs first
    uint32_t type = 0;
    std::vector<std::byte> data;
    int64_t offset_shift = 0;  // added to the right offset
  };

  uint32_t version = 3;
  uint64_t alignment = 32;  // of the layout; set the key general.alignment to match

  void u32(const std::string& key, uint32_t value);
  void i32(const std::string& key, int32_t value);
  void u64(const std::string& key, uint64_t value);
  void f32(const std::string& key, float value);
  void boolean(const std::string& key, bool value);
  void string(const std::string& key, const std::string& value);
  void strings(const std::string& key, const std::vector<std::string>& values);
  void integers(const std::string& key, const std::vector<int32_t>& values);
  void floats(const std::string& key, const std::vector<float>& values);
  void raw(const std::string& key, uint32_t type, std::vector<std::byte> bytes);
  void erase(const std::string& key);

  void tensor(const std::string& name, std::vector<uint64_t> dims, uint32_t type,
              std::vector<std::byte> data);
  // Encodes `values` as `type`.
  void tensor(const std::string& name, std::vector<uint64_t> dims, kernels::WeightType type,
              std::span<const float> values);
  Tensor& at(const std::string& name);  // throws std::out_of_range
  void erase_tensor(const std::string& name);

  std::vector<Entry> entries;
  std::vector<Tensor> tensors;

  std::vector<std::byte> bytes() const;       // the whole file
  size_t header_bytes() const;                // up to the padding before the data
  void write(const std::string& path) const;  // throws std::runtime_error
  std::shared_ptr<const TempFile> write_temp(const std::string& label) const;

 private:
  std::vector<std::byte> header() const;
};

}  // namespace tinyloop::testing
