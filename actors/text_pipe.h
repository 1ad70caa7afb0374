// A byte pipe from one writer thread to one reader thread that never blocks and never moves bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tinyloop::actors {

// A chain of blocks. The first is taken in the constructor; more are added when text is longer than
// foreseen. The pipe has no atomics: the reader reads only as far as the writer's count, which it
// learns through StreamBuffer's release and acquire, and the links of the blocks become visible
// with the bytes behind them.
class TextPipe {
 public:
  explicit TextPipe(size_t capacity);
  TextPipe(const TextPipe&) = delete;
  TextPipe& operator=(const TextPipe&) = delete;
  ~TextPipe();

  // Writer. Throws std::bad_alloc, and then nothing was written.
  void write(std::string_view text);
  size_t written() const noexcept { return written_; }

  // Reader. Appends the bytes up to `end`, a count the writer has published, to `out`, which must
  // have the capacity.
  void read(size_t end, std::string& out) noexcept;
  size_t read_so_far() const noexcept { return read_; }

 private:
  struct Block {
    explicit Block(size_t size) : bytes(std::make_unique<char[]>(size)), capacity(size) {}
    std::unique_ptr<char[]> bytes;
    size_t capacity;
    Block* next = nullptr;
  };

  Block* const first_;
  Block* write_block_;
  size_t write_place_ = 0;
  size_t written_ = 0;
  Block* read_block_;
  size_t read_place_ = 0;
  size_t read_ = 0;
};

}  // namespace tinyloop::actors
