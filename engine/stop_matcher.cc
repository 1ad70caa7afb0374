#include "engine/stop_matcher.h"

#include <algorithm>

#include "base/check.h"
#include "engine/utf8.h"

namespace tinyloop::engine {

namespace {

using Patterns = std::vector<std::vector<int32_t>>;

Patterns token_patterns(std::span<const StopSequence> stops) {
  Patterns patterns;
  for (const StopSequence& stop : stops) {
    if (!stop.tokens.empty()) patterns.push_back(stop.tokens);
  }
  return patterns;
}

Patterns text_patterns(std::span<const StopSequence> stops) {
  Patterns patterns;
  for (const StopSequence& stop : stops) {
    if (stop.text.empty() || !is_valid_utf8(stop.text)) continue;
    auto& pattern = patterns.emplace_back();
    for (const char byte : stop.text) pattern.push_back(static_cast<uint8_t>(byte));
  }
  return patterns;
}

}  // namespace

StopMatcher::StopMatcher(std::span<const StopSequence> stops)
    : stop_tokens_(token_patterns(stops)),
      stop_texts_(text_patterns(stops)),
      token_begins_(std::max<size_t>(stop_tokens_.longest_pattern(), 1)) {}

void StopMatcher::reserve(size_t max_tokens, size_t max_token_text) {
  const size_t held_tokens = std::min(stop_tokens_.longest_pattern(), max_tokens);
  const size_t held = std::max(stop_texts_.longest_pattern(), held_tokens * max_token_text);
  // append() lets at most as much released text lie in the buffer as there is held text.
  buffer_.reserve(std::min(2 * held, max_tokens * max_token_text) + max_token_text);
}

StopMatcher::Step StopMatcher::push(int32_t token, std::string_view text) {
  if (stopped_) return {true, {}};
  token_begin(token_count_) = text_size_;
  ++token_count_;
  const size_t stop = std::min(match_token(token), match_text(text));
  append(text);
  stopped_ = stop != kNoStop;
  return {stopped_, release(stopped_ ? stop : held_from())};
}

StopMatcher::Step StopMatcher::finish(std::string_view tail) {
  if (stopped_) return {true, {}};
  const size_t stop = match_text(tail);
  append(tail);
  stopped_ = stop != kNoStop;
  return {stopped_, release(stopped_ ? stop : text_size_)};
}

// Both: where the text of the stop begins that is now complete.
size_t StopMatcher::match_token(int32_t token) {
  token_state_ = stop_tokens_.next(token_state_, token);
  const size_t length = stop_tokens_.match_length(token_state_);
  return length == 0 ? kNoStop : token_begin(token_count_ - length);
}

size_t StopMatcher::match_text(std::string_view text) {
  size_t begin = kNoStop;
  for (size_t i = 0; i < text.size(); ++i) {
    text_state_ = stop_texts_.next(text_state_, static_cast<uint8_t>(text[i]));
    const size_t length = stop_texts_.match_length(text_state_);
    if (length != 0) begin = std::min(begin, text_size_ + i + 1 - length);
  }
  return begin;
}

// Where the text begins that may still belong to a stop.
size_t StopMatcher::held_from() {
  const size_t text_from = text_size_ - stop_texts_.depth(text_state_);
  const size_t tokens = stop_tokens_.depth(token_state_);
  return tokens == 0 ? text_from : std::min(text_from, token_begin(token_count_ - tokens));
}

void StopMatcher::append(std::string_view text) {
  const size_t held = text_size_ - released_;
  if (buffer_.size() >= 2 * held) {  // moving what is held costs less than what was released
    buffer_.erase(0, buffer_.size() - held);
    buffer_begin_ = released_;
  }
  buffer_ += text;
  text_size_ += text.size();
}

std::string_view StopMatcher::release(size_t end) {
  TINYLOOP_CHECK(released_ <= end && end <= text_size_);
  const std::string_view text(buffer_.data() + (released_ - buffer_begin_), end - released_);
  released_ = end;
  return text;
}

}  // namespace tinyloop::engine
