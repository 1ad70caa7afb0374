#include "tests/support/gguf_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "tests/support/quantise.h"

namespace tinyloop::testing {

namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void put(Bytes& out, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), from, from + sizeof value);
}

void put_string(Bytes& out, const std::string& text) {
  put(out, uint64_t{text.size()});
  const auto chars = std::as_bytes(std::span(text));
  out.insert(out.end(), chars.begin(), chars.end());
}

template <class T>
Bytes scalar(T value) {
  Bytes out;
  put(out, value);
  return out;
}

template <class T>
Bytes array(uint32_t element_type, const std::vector<T>& values) {
  Bytes out;
  put(out, element_type);
  put(out, uint64_t{values.size()});
  for (const T& value : values) put(out, value);
  return out;
}

size_t align_up(size_t value, size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

TempFile::TempFile(const std::string& label) {
  static std::atomic<int> counter{0};
  path_ = ::testing::TempDir() + "tinyloop_" + label + "_" + std::to_string(::getpid()) + "_" +
          std::to_string(counter++) + ".gguf";
}

TempFile::~TempFile() {
  std::remove(path_.c_str());
}

void GgufWriter::u32(const std::string& key, uint32_t value) {
  raw(key, 4, scalar(value));
}
void GgufWriter::i32(const std::string& key, int32_t value) {
  raw(key, 5, scalar(value));
}
void GgufWriter::u64(const std::string& key, uint64_t value) {
  raw(key, 10, scalar(value));
}
void GgufWriter::f32(const std::string& key, float value) {
  raw(key, 6, scalar(value));
}
void GgufWriter::boolean(const std::string& key, bool value) {
  raw(key, 7, scalar(static_cast<uint8_t>(value)));
}

void GgufWriter::string(const std::string& key, const std::string& value) {
  Bytes out;
  put_string(out, value);
  raw(key, 8, std::move(out));
}

void GgufWriter::strings(const std::string& key, const std::vector<std::string>& values) {
  Bytes out;
  put(out, uint32_t{8});
  put(out, uint64_t{values.size()});
  for (const std::string& value : values) put_string(out, value);
  raw(key, 9, std::move(out));
}

void GgufWriter::integers(const std::string& key, const std::vector<int32_t>& values) {
  raw(key, 9, array(5, values));
}

void GgufWriter::floats(const std::string& key, const std::vector<float>& values) {
  raw(key, 9, array(6, values));
}

void GgufWriter::raw(const std::string& key, uint32_t type, Bytes value) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  Entry entry{key, type, std::move(value)};
  if (found == entries.end()) {
    entries.push_back(std::move(entry));
  } else {
    *found = std::move(entry);
  }
}

void GgufWriter::erase(const std::string& key) {
  std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
}

void GgufWriter::tensor(const std::string& name, std::vector<uint64_t> dims, uint32_t type,
                        Bytes data) {
  Tensor tensor{name, std::move(dims), type, std::move(data), 0};
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const Tensor& other) { return other.name == name; });
  if (found == tensors.end()) {
    tensors.push_back(std::move(tensor));
  } else {
    *found = std::move(tensor);
  }
}

void GgufWriter::tensor(const std::string& name, std::vector<uint64_t> dims,
                        kernels::WeightType type, std::span<const float> values) {
  tensor(name, std::move(dims), static_cast<uint32_t>(type), quantise(type, values));
}

GgufWriter::Tensor& GgufWriter::at(const std::string& name) {
  for (Tensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::out_of_range("no tensor " + name);
}

void GgufWriter::erase_tensor(const std::string& name) {
  std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
}

Bytes GgufWriter::header() const {
  Bytes out;
  put(out, uint32_t{0x46554747});
  put(out, version);
  put(out, uint64_t{tensors.size()});
  put(out, uint64_t{entries.size()});
  for (const Entry& entry : entries) {
    put_string(out, entry.key);
    put(out, entry.type);
    out.insert(out.end(), entry.bytes.begin(), entry.bytes.end());
  }
  size_t offset = 0;
  for (const Tensor& tensor : tensors) {
    put_string(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) put(out, dim);
    put(out, tensor.type);
    put(out, static_cast<uint64_t>(static_cast<int64_t>(offset) + tensor.offset_shift));
    offset = align_up(offset + tensor.data.size(), alignment);
  }
  return out;
}

size_t GgufWriter::header_bytes() const {
  return header().size();
}

Bytes GgufWriter::bytes() const {
  Bytes out = header();
  for (const Tensor& tensor : tensors) {
    out.resize(align_up(out.size(), alignment));
    out.insert(out.end(), tensor.data.begin(), tensor.data.end());
  }
  return out;
}

void GgufWriter::write(const std::string& path) const {
  const Bytes content = bytes();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(content.data()),
             static_cast<std::streamsize>(content.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::shared_ptr<const TempFile> GgufWriter::write_temp(const std::string& label) const {
  auto file = std::make_shared<const TempFile>(label);
  write(file->path());
  return file;
}

}  // namespace tinyloop::testing
