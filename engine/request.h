// From what a caller asked to what the engine runs: every bound of the contract is checked here,
// on the caller's thread, before anything is queued.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/stop_matcher.h"
#include "tinyloop/generate.h"
#include "tinyloop/options.h"

namespace tinyloop::engine {

class Tokenizer;

// Names a sequence within its engine; never used twice.
using SequenceId = uint64_t;

// The bounds a request is checked against. Immutable after the load; shared by all threads.
struct RequestLimits {
  int32_t vocab = 0;
  int32_t max_seq_len = 0;
  int32_t default_loops = 0;
  int32_t max_loops = 0;
  int32_t trained_context = 0;  // going past it is allowed
};

enum class SequenceKind : uint8_t { generate, score };

// A checked request: exactly what the engine runs, with every default filled in.
struct SequenceRequest {
  SequenceKind kind = SequenceKind::generate;
  std::vector<int32_t> tokens;  // the prompt, or the text to score
  int32_t loops = 1;
  int32_t window = 0;
  GenerateConfig config;  // sampling, logprobs, max_tokens (score: defaults)
  StopMatcher stops{{}};  // of config.stop_sequences, with its memory: built on the caller's thread

  // Positions whose K/V will be computed at most: the last token is never fed back.
  int32_t max_positions() const {
    const auto length = static_cast<int32_t>(tokens.size());
    return kind == SequenceKind::score ? length - 1 : length + config.max_tokens - 1;
  }
};

// Errors: invalid_argument with "field: value …, allowed …". `tokenizer` may be null: then text
// prompts and text stop sequences are refused.
base::Result<SequenceRequest> check_request(const GenerateRequest& request,
                                            const RequestLimits& limits,
                                            const Tokenizer* tokenizer);
base::Result<SequenceRequest> check_request(const ScoreRequest& request,
                                            const RequestLimits& limits);

// Bounds of ModelOptions (tinyloop/options.h), checked before the file is opened.
base::Result<void> check_options(const ModelOptions& options);

}  // namespace tinyloop::engine
