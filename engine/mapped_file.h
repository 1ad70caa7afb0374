// A file's bytes, read-only in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace tinyloop::engine {

// Maps a regular file for reading, or owns a copy of given bytes. Movable; the bytes keep their
// address over a move. Any thread may read them.
//
// A file must not be shortened while it is mapped: reading past its new end raises SIGBUS.
// Replacing it by renaming another file over it is safe.
class MappedFile {
 public:
  // Errors: io_error when `path` cannot be opened, is no regular file, is empty or cannot be
  // mapped.
  static base::Result<MappedFile> open(const std::string& path);

  // A copy of `bytes` under the name `name`.
  static MappedFile from_bytes(std::span<const std::byte> bytes, std::string name);

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  struct Release {
    size_t mapped_bytes = 0;  // 0: heap memory
    void operator()(const std::byte* data) const noexcept;
  };
  using Data = std::unique_ptr<const std::byte[], Release>;

  MappedFile(std::string path, Data data, size_t size)
      : path_(std::move(path)), data_(std::move(data)), size_(size) {}

  std::string path_;
  Data data_;
  size_t size_ = 0;
};

}  // namespace tinyloop::engine
