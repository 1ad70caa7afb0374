// Decides after each generated token whether a stop sequence has been completed, and how much of
// the generated text may be given out.
//
// - The stop that is completed first wins; of several completed by the same token, the one that
//   begins earliest in the text.
// - Text from the beginning of the winning stop on is dropped: for a stop text from its first
//   byte, for stop tokens from the first byte of the first of them.
// - Text that may still turn out to belong to a stop is held back; at the end without a stop it is
//   given out.
// Both kinds of stop may cross any token border. Stop texts are looked for in the decoded text, as
// TextDecoder gives it out; one that is not valid UTF-8 occurs in no text and is ignored. All text
// given out is whole characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sequence_automaton.h"
#include "tinyloop/generate.h"

namespace tinyloop::engine {

class StopMatcher {
 public:
  struct Step {
    bool stopped = false;
    std::string_view text;  // may be given out now; valid until the next call
  };

  explicit StopMatcher(std::span<const StopSequence> stops);

  // After this, pushes allocate nothing for up to `max_tokens` tokens of at most `max_token_text`
  // bytes of text each (TextDecoder::max_output of the longest token; 0 without a tokenizer).
  void reserve(size_t max_tokens, size_t max_token_text);

  // The next token, and the text it has completed (valid UTF-8, often empty). O(1) amortised per
  // byte. Once stopped, further tokens and text are dropped.
  Step push(int32_t token, std::string_view text);

  // The end without a stop so far: `tail` is the last text (TextDecoder::flush). Gives out all that
  // was held back; `stopped` only if the tail has completed a stop text.
  Step finish(std::string_view tail);

  bool stopped() const { return stopped_; }

 private:
  static constexpr size_t kNoStop = SIZE_MAX;

  size_t match_token(int32_t token);
  size_t match_text(std::string_view text);
  size_t& token_begin(size_t index) { return token_begins_[index % token_begins_.size()]; }
  size_t held_from();
  void append(std::string_view text);
  std::string_view release(size_t end);

  SequenceAutomaton stop_tokens_, stop_texts_;  // a byte of a text is a symbol 0 .. 255
  SequenceAutomaton::State token_state_ = SequenceAutomaton::kStart;
  SequenceAutomaton::State text_state_ = SequenceAutomaton::kStart;
  size_t token_count_ = 0;
  std::vector<size_t> token_begins_;  // ring: where in the text each of the last tokens begins
  size_t text_size_ = 0;              // all text so far, in bytes
  size_t released_ = 0;               // of it given out
  std::string buffer_;                // the text from byte buffer_begin_ on
  size_t buffer_begin_ = 0;
  bool stopped_ = false;
};

}  // namespace tinyloop::engine
