// Who asked for a sequence: the engine tells it each event, on the replica's thread, in order.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"
#include "engine/cached_prefix.h"
#include "tinyloop/generate.h"

namespace tinyloop::engine {

struct ChunkStep;

// After on_finished or on_failed the engine forgets the client and calls it no more. The views are
// valid during the call alone. Calls must not reach back into the engine.
class SequenceClient {
 public:
  virtual ~SequenceClient() = default;

  // The first rows of the sequence enter a pass.
  virtual void on_begin() noexcept = 0;
  // A token was sampled. `text`: what may be released now, valid UTF-8, often empty.
  // `logprobs`: null unless the request asked for them.
  virtual void on_token(int32_t token, std::string_view text,
                        const PositionLogprobs* logprobs) noexcept = 0;
  // Score: log-probability of the next token, in order, starting with the second.
  virtual void on_score(float logprob) noexcept = 0;
  // Where passes are observed (BatchEngine::set_pass_observer): rows of the sequence were in one.
  virtual void on_pass(const ChunkStep& /*chunk*/) noexcept {}
  // The prefix that the request was to keep has been computed and is held for it.
  virtual void on_prefix(PrefixId /*id*/) noexcept {}
  // At admission: the prompt of this generation finds no room to be kept.
  virtual void on_unkept() noexcept {}
  // The end, with the text that had been held back.
  virtual void on_finished(FinishReason reason, std::string_view text) noexcept = 0;
  virtual void on_failed(const base::Error& error) noexcept = 0;
  // Whether on_logits is to be called; then logits travel to the host for every token.
  virtual bool wants_logits() const noexcept { return false; }
  // Raw logits behind a sampled or scored token, for tests of bit-identity. position: of the row
  // that produced them.
  virtual void on_logits(int32_t /*position*/, std::span<const float> /*logits*/) noexcept {}
};

}  // namespace tinyloop::engine
