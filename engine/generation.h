// From logits to tokens and text: what a generating sequence does with each row of its output.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/penalty_history.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/sequence_client.h"
#include "engine/stop_matcher.h"
#include "engine/text_decoder.h"
#include "engine/tokenizer.h"

namespace tinyloop::engine {

class Generation {
 public:
  // `request` must outlive this; its stop matcher is taken over. `tokenizer` may be null: no text,
  // no eos. All memory that the tokens to come will need is reserved by then.
  Generation(SequenceRequest& request, int32_t vocab, const Tokenizer* tokenizer,
             SequenceClient& client);

  struct Choice {
    int32_t token = 0;
    std::optional<FinishReason> finished;  // the token was the last one
  };

  // Chooses the token for `position`, tells the client about it, and says whether it is the last.
  // nullopt: the logits are not finite, no choice has a meaning.
  std::optional<Choice> choose(std::span<const float> logits, int32_t position, Sampler& sampler);
  // The same for a token that has been chosen elsewhere.
  Choice take(int32_t token);

  // Text still held back, given out because no more tokens follow; once, as the last call.
  std::string_view remaining_text();

 private:
  StopMatcher::Step release_text(int32_t token);
  std::optional<FinishReason> finish_reason(int32_t token, bool stopped) const;

  const SequenceRequest& request_;
  const Tokenizer* tokenizer_;
  SequenceClient& client_;
  TextDecoder decoder_;
  StopMatcher stops_;
  PenaltyHistory history_;
  PositionLogprobs logprobs_;
  std::string text_;      // of the token at hand
  bool at_start_ = true;  // no token has shown any text yet, in the prompt or after it
  int32_t generated_ = 0;
};

}  // namespace tinyloop::engine
