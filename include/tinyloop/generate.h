// What a caller asks for and what comes back: plain values, used by every layer. Every member has
// an initialiser, so that designated initialisation of a few of them compiles without a warning.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tinyloop/detail/export.h"
#include "tinyloop/prefix_pool.h"
#include "tinyloop/reuse.h"

namespace tinyloop {

using TimePoint = std::chrono::steady_clock::time_point;

// Where generation stops: a sequence of token ids, or a text. Exactly one of the two is non-empty.
// A text may begin and end inside tokens; it is looked for in the generated text alone, never in
// the prompt.
struct StopSequence {
  std::string text{};
  std::vector<int32_t> tokens{};

  StopSequence() = default;
  StopSequence(const char* stop_text) : text(stop_text) {}                            // NOLINT
  StopSequence(std::string stop_text) : text(std::move(stop_text)) {}                 // NOLINT
  StopSequence(std::vector<int32_t> stop_tokens) : tokens(std::move(stop_tokens)) {}  // NOLINT
};

enum class EosMode : uint8_t {
  stop,    // the file's end-of-sequence token ends generation (and is kept in the result)
  ignore,  // it is a token like any other
};

// What is added to one token's logit.
struct LogitBias {
  int32_t token = 0;
  float bias = 0.0f;  // finite
};

// How to decode. Every bound is checked before any work; a breach is errc::invalid_argument.
// A token is chosen in this order: logit_bias, min_tokens, repetition penalty, presence and
// frequency penalties, temperature, top_k, top_p, min_p, and a draw from what is left. Equal logits
// are ordered by token id. The same logits, seed and position give the same token on every device.
// docs/options.md has the same table with examples.
struct GenerateConfig {
  int32_t max_tokens = 128;  // >= 1; prompt + max_tokens <= ModelOptions::max_seq_len
  std::optional<int32_t>
      loops{};               // 1 .. file's maximum (64 for `llama` files); unset: file's default
  float temperature = 0.0f;  // finite, >= 0; 0: greedy
  int32_t top_k = 0;         // >= 0; 0: off
  float top_p = 1.0f;        // (0, 1]; 1: off
  float min_p = 0.0f;        // [0, 1); 0: off
  float repetition_penalty = 1.0f;  // finite, > 0; 1: off. Over prompt and output
  // -2 .. 2; 0: off. Taken off the logits of tokens that the output has: the first as it is, the
  // second times their number there.
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::vector<LogitBias> logit_bias{};  // at most 1,024, of different tokens
  // 0 .. max_tokens: before so many tokens, neither eos (with EosMode::stop) nor a stop sequence of
  // one token is chosen. Longer stop sequences and stop texts end the output all the same.
  int32_t min_tokens = 0;
  uint64_t seed = 0;                           // random draws depend on (seed, position) alone
  std::vector<StopSequence> stop_sequences{};  // at most 64, each of at most 1,024 tokens or bytes
  EosMode eos = EosMode::stop;
  std::optional<int32_t>
      logprobs{};  // 0 .. 64: also report that many most likely tokens a position
  std::optional<int32_t>
      cache_window{};  // >= 0: attend to the last n positions alone; 0 or unset: all
  std::optional<TimePoint> deadline{};  // checked between steps; see FinishReason::deadline
  // -16 .. 16. Each step brings a request 64 places forward among those that wait: those who came
  // longer ago than that go before it all the same. Changes no result.
  int32_t priority = 0;
  std::string grammar{};  // must be empty: this version computes no grammars, and ignores nothing
};

// What to do when the queue or the memory budget has no room at the moment.
enum class WhenFull : uint8_t {
  fail,  // complete with errc::overloaded at once
  wait,  // stay queued until there is room, a cancel, or the deadline
  // As `wait`, but only for what requests will give back: once none is running, and reuse
  // handles hold the room, complete with errc::out_of_memory. For callers who would have to drop a
  // handle themselves, and cannot while they wait.
  wait_for_requests,
};

// A prompt and how to continue it. Exactly one of `text` and `tokens` is non-empty; `text` needs a
// model file with a tokenizer and is encoded without parsing special tokens in it.
//
// With `prefix` or `resume` (at most one of prefix, resume and pool) the prompt is the handle's
// tokens and, behind them, `text` or `tokens`, both of which may be empty then; a text gets no bos
// token. The result is to the bit that of the same prompt without the handle. config.cache_window
// unset: the handle's; another one is invalid_argument.
struct GenerateRequest {
  std::string text{};
  std::vector<int32_t> tokens{};
  GenerateConfig config{};
  WhenFull when_full = WhenFull::fail;
  // config.loops unset: the depth of the prefix; another one is loop_mismatch.
  PrefixCache prefix{};
  // The handle's tokens are carried on to resume_loops: its own loops .. its max_loops, and at most
  // the file's maximum; unset: config.loops, and if that is unset, too, the file's default. All
  // that follows is computed at config.loops, at most resume_loops; unset: resume_loops.
  ResumeHandle resume{};
  std::optional<int32_t> resume_loops{};
  // The prompt begins with whatever prefix of the pool is the longest that it shares, at this
  // request's depth and window, and the rest of it is computed. Nothing in common: the request is
  // computed as if there were no pool. Only prefixes of other depths are beginnings of the prompt:
  // loop_mismatch.
  PrefixPool pool{};
};

// A prefix to be computed and kept. Exactly one of `text` and `tokens` is non-empty, as above.
struct PrefixRequest {
  std::string text{};
  std::vector<int32_t> tokens{};          // 1 .. max_seq_len
  std::optional<int32_t> loops{};         // as in GenerateConfig
  std::optional<int32_t> cache_window{};  // as in GenerateConfig; of all that continues it, too
  std::optional<TimePoint> deadline{};    // passed before it is computed: deadline_exceeded
  WhenFull when_full = WhenFull::fail;
  int32_t priority = 0;  // as in GenerateConfig
};

// A prefix to be computed to `prefix.loops` and kept so that it can be carried on.
struct ResumeRequest {
  PrefixRequest prefix{};
  int32_t max_loops = 32;  // prefix.loops .. 64; may exceed the file's maximum
};

// A handle to be carried on to a greater depth.
struct DeepenRequest {
  ResumeHandle handle{};
  int32_t loops = 0;                    // the handle's own .. its max_loops
  std::optional<TimePoint> deadline{};  // as in PrefixRequest
  WhenFull when_full = WhenFull::fail;
  int32_t priority = 0;  // as in GenerateConfig
};

// Log-probability of each token of a text, given those before it. Nothing is sampled.
struct ScoreRequest {
  std::vector<int32_t> tokens{};          // 1 .. max_seq_len tokens
  std::optional<int32_t> loops{};         // as in GenerateConfig
  std::optional<int32_t> cache_window{};  // as in GenerateConfig
  std::optional<TimePoint> deadline{};
  WhenFull when_full = WhenFull::fail;
  int32_t priority = 0;  // as in GenerateConfig
};

enum class FinishReason : uint8_t {
  eos,            // the end-of-sequence token was generated
  stop_sequence,  // one of GenerateConfig::stop_sequences was completed
  max_tokens,     // max_tokens were generated (for score: every token was scored)
  cancelled,      // cancelled after it had begun: the tokens so far are in the result
  deadline,       // the deadline passed after it had begun: likewise
  all_masked,     // an error: no token was left that may follow; likewise
};

TINYLOOP_API const char* to_string(
    FinishReason reason) noexcept;  // "eos", "stop_sequence", …; static storage

// One candidate token at one position.
struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;  // natural log; of the raw logits, before penalty and temperature
};

// The generated token's log-probability, and the most likely candidates, best first.
struct PositionLogprobs {
  TokenLogprob chosen{};
  std::vector<TokenLogprob> top{};  // GenerateConfig::logprobs entries
};

// Wall-clock parts of one request, in microseconds.
struct Timings {
  double queue_us = 0;    // submitted -> first row admitted to a pass
  double prefill_us = 0;  // -> first token sampled (score: -> done)
  double decode_us = 0;   // first token -> last token
};

struct GenerateResult {
  std::vector<int32_t> tokens{};  // prompt, then the generated tokens, stop tokens and eos included
  size_t prompt_tokens = 0;       // how many of them are the prompt
  std::string text{};             // generated text without the stop text; empty without a tokenizer
  FinishReason finish_reason = FinishReason::max_tokens;
  std::vector<PositionLogprobs> logprobs{};  // one per generated token, if asked for
  int32_t loops = 0;                         // the depth used
  Timings timings{};
};

struct ScoreResult {
  std::vector<float>
      logprobs{};  // natural log; entry i belongs to token i + 1. Short if stopped early
  FinishReason finish_reason = FinishReason::max_tokens;
  int32_t loops = 0;
  Timings timings{};
};

// What a stream hands over: everything new since the last chunk.
struct StreamChunk {
  std::vector<int32_t> tokens{};  // in order, each exactly once, as soon as they are sampled
  std::string text{};             // valid UTF-8; held back while it may still become a stop text
  std::vector<PositionLogprobs> logprobs{};
  struct Summary {
    FinishReason finish_reason = FinishReason::max_tokens;
    size_t prompt_tokens = 0;
    size_t generated_tokens = 0;
    int32_t loops = 0;
    Timings timings{};
  };
  std::optional<Summary> summary{};  // set in the last chunk alone
};

}  // namespace tinyloop
