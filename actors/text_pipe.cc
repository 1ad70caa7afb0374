#include "actors/text_pipe.h"

#include <algorithm>

namespace tinyloop::actors {

TextPipe::TextPipe(size_t capacity)
    : first_(new Block(capacity)), write_block_(first_), read_block_(first_) {}

TextPipe::~TextPipe() {
  for (Block* block = first_; block;) {
    const std::unique_ptr<Block> held(block);
    block = block->next;
  }
}

void TextPipe::write(std::string_view text) {
  const size_t room = write_block_->capacity - write_place_;
  std::unique_ptr<Block> more;
  if (text.size() > room)
    more = std::make_unique<Block>(std::max(text.size() - room, write_block_->capacity));
  const size_t here = text.copy(write_block_->bytes.get() + write_place_, room);
  write_place_ += here;
  if (more) {
    write_block_->next = more.get();
    write_block_ = more.release();
    write_place_ = text.substr(here).copy(write_block_->bytes.get(), write_block_->capacity);
  }
  written_ += text.size();
}

void TextPipe::read(size_t end, std::string& out) noexcept {
  while (read_ < end) {
    if (read_place_ == read_block_->capacity) {
      read_block_ = read_block_->next;
      read_place_ = 0;
    }
    const size_t count = std::min(end - read_, read_block_->capacity - read_place_);
    out.append(read_block_->bytes.get() + read_place_, count);
    read_place_ += count;
    read_ += count;
  }
}

}  // namespace tinyloop::actors
