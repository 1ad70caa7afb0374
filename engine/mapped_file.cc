#include "engine/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace tinyloop::engine {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

base::Error io_failure(const std::string& path, const std::string& what) {
  return {errc::io_error, path + ": " + what};
}

base::Error system_failure(const std::string& path, const char* what) {
  const int code = errno;
  return io_failure(path, std::string(what) + ": " + std::generic_category().message(code));
}

}  // namespace

void MappedFile::Release::operator()(const std::byte* data) const noexcept {
  if (mapped_bytes == 0) {
    delete[] data;
  } else {
    ::munmap(const_cast<std::byte*>(data), mapped_bytes);
  }
}

base::Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer. It means nothing to a file.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_failure(path, "cannot open");
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return system_failure(path, "cannot read its size");
  if (!S_ISREG(info.st_mode)) return io_failure(path, "is not a regular file");
  if (info.st_size <= 0) return io_failure(path, "is empty");

  const auto size = static_cast<size_t>(info.st_size);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) return system_failure(path, "cannot map into memory");
  return MappedFile(path, Data(static_cast<const std::byte*>(mapped), Release{size}), size);
}

MappedFile MappedFile::from_bytes(std::span<const std::byte> bytes, std::string name) {
  auto* copy = new std::byte[bytes.size()];
  std::copy(bytes.begin(), bytes.end(), copy);
  return MappedFile(std::move(name), Data(copy, Release{0}), bytes.size());
}

}  // namespace tinyloop::engine
