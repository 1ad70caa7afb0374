// From tokens to text: what a generating sequence does with each token that is chosen for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/request.h"
#include "engine/sequence_client.h"
#include "engine/stop_matcher.h"
#include "engine/text_decoder.h"
#include "engine/tokenizer.h"
#include "kernels/sample.h"

namespace tinyloop::engine {

class Generation {
 public:
  // `request` must outlive this; its stop matcher is taken over. `tokenizer` may be null: no text,
  // no eos. All memory that the tokens to come will need is reserved by then.
  Generation(SequenceRequest& request, const Tokenizer* tokenizer, SequenceClient& client);

  // Tells the client about a token, and says why it is the last one, if it is. `candidates`: the
  // most likely tokens, where the request wants their log-probabilities.
  std::optional<FinishReason> take(const kernels::ScoredToken& token,
                                   std::span<const kernels::ScoredToken> candidates);

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
  PositionLogprobs logprobs_;
  std::string text_;      // of the token at hand
  bool at_start_ = true;  // no token has shown any text yet, in the prompt or after it
  int32_t generated_ = 0;
};

}  // namespace tinyloop::engine
