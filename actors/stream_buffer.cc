#include "actors/stream_buffer.h"

#include <algorithm>

#include "actors/error.h"
#include "actors/operation.h"
#include "base/check.h"

namespace tinyloop::actors {

namespace {

constexpr size_t kLeastText = 256;

}  // namespace

StreamBuffer::StreamBuffer(size_t max_tokens, const std::optional<int32_t>& logprobs)
    : slots_(max_tokens),
      logprobs_(max_tokens, logprobs),
      text_(std::max(kLeastText, max_tokens * kUsualTokenBytes)) {}

void StreamBuffer::push(int32_t token, std::string_view text, const PositionLogprobs* logprobs) {
  TINYLOOP_CHECK(pushed_ < slots_.size());
  text_.write(text);
  if (logprobs) logprobs_.set(pushed_, *logprobs);
  slots_[pushed_++] = {token, text_.written()};
  // Sequentially consistent: the reader's wish for a token is looked for right after (HandOver).
  published_.store(pushed_);
}

void StreamBuffer::finish(error_code error, const StreamChunk::Summary& summary) noexcept {
  error_ = error;
  summary_ = summary;
  text_end_ = text_.written();
  published_.store(pushed_ | kEnd);
}

bool StreamBuffer::has_more(size_t taken) const noexcept {
  return published_.load() > taken;  // kEnd is above every count
}

StreamBuffer::Read StreamBuffer::read() {
  const uint64_t published = published_.load();
  const size_t count = published & ~kEnd;
  const bool ended = (published & kEnd) != 0;
  if (end_taken_) return {make_error(errc::end_of_stream, {}), {}};
  if (ended && error_ && taken_ == count) {
    end_taken_ = true;
    return {error_, {}};
  }
  const bool is_last = ended && !error_;
  const size_t text_end = is_last ? text_end_ : count > 0 ? slots_[count - 1].text_end : 0;
  Read result;
  result.chunk.tokens.reserve(count - taken_);
  result.chunk.text.reserve(text_end - text_.read_so_far());
  result.chunk.logprobs = logprobs_.take(taken_, count);
  text_.read(text_end, result.chunk.text);
  for (; taken_ < count; ++taken_) result.chunk.tokens.push_back(slots_[taken_].token);
  if (is_last) {
    result.chunk.summary = summary_;
    end_taken_ = true;
  }
  return result;
}

}  // namespace tinyloop::actors
