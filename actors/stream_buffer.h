// The tokens of a stream on their way from the replica's thread to the reader: one writer, one
// reader, no locks. Room for max_tokens is taken in the constructor, on the caller's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "actors/logprob_slots.h"
#include "actors/text_pipe.h"
#include "tinyloop/error.h"
#include "tinyloop/generate.h"

namespace tinyloop::actors {

class StreamBuffer {
 public:
  // What one read gives.
  struct Read {
    error_code error;
    StreamChunk chunk;
  };

  StreamBuffer(size_t max_tokens, const std::optional<int32_t>& logprobs);

  // Writer. `push` at most max_tokens times, `add_text` after the last one, `finish` once and last.
  // push and add_text throw std::bad_alloc if text longer than foreseen finds no memory.
  void push(int32_t token, std::string_view text, const PositionLogprobs* logprobs);
  void add_text(std::string_view text) { text_.write(text); }
  void finish(error_code error, const StreamChunk::Summary& summary) noexcept;

  // Any thread: whether a reader that has taken `taken` tokens would get something, the end
  // included.
  bool has_more(size_t taken) const noexcept;

  // Reader: what it has had.
  size_t taken() const noexcept { return taken_; }
  bool end_taken() const noexcept { return end_taken_; }
  // Reader, when there is more. Everything new; with the last chunk the summary, then
  // end_of_stream. An error comes once, after the tokens before it. Throws std::bad_alloc, and then
  // nothing was taken.
  Read read();

 private:
  static constexpr uint64_t kEnd = uint64_t{1} << 63;

  struct Slot {
    int32_t token;
    size_t text_end;
  };

  std::vector<Slot> slots_;
  LogprobSlots logprobs_;
  TextPipe text_;
  error_code error_;  // these two are written before kEnd is published
  StreamChunk::Summary summary_;
  size_t text_end_ = 0;                 // likewise
  size_t pushed_ = 0;                   // the writer's own count
  std::atomic<uint64_t> published_{0};  // slots written, and kEnd
  size_t taken_ = 0;                    // the reader's
  bool end_taken_ = false;
};

}  // namespace tinyloop::actors
