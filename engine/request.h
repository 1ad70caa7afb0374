// From what a caller asked to what the engine runs: every bound of the contract is checked here,
// on the caller's thread, before anything is queued.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/cached_prefix.h"
#include "engine/stop_matcher.h"
#include "kernels/sample.h"
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

  bool operator==(const RequestLimits&) const = default;
};

// build: computes its tokens for what it keeps, and samples nothing.
enum class SequenceKind : uint8_t { generate, score, build };

// What a sequence leaves behind when its prompt has been computed.
struct KeepRequest {
  PrefixState state = PrefixState::final_row;
  int32_t max_loops = 1;  // PrefixShape::max_loops
};

// A checked request: exactly what the engine runs, with every default filled in.
struct SequenceRequest {
  SequenceKind kind = SequenceKind::generate;
  std::vector<int32_t> tokens;  // the prompt, or the text to score
  int32_t loops = 1;            // of the rows that begin with their tokens
  int32_t window = 0;
  GenerateConfig config;  // sampling, logprobs, max_tokens, priority (score: defaults)
  int64_t rank = 0;       // its place among a replica's requests (engine/rank.h), once it has one

  // Begins with the first base_positions positions of a cached prefix of the same window:
  //   base of state final_row, computed at `loops`: as they are. If these are all the tokens there
  //   are, base_positions is the whole of base, and the last row's logits are made again
  //   base of state loop_rows: the whole of it, carried on to base_loops iterations, and the coda
  CachedPrefixRef base{};
  int32_t base_positions = 0;
  int32_t base_loops = 0;
  std::optional<KeepRequest> keep{};
  std::vector<kernels::LogitBias> biases{};  // config.logit_bias
  // What may follow before config.min_tokens tokens have been generated: [mask_words(vocab)], or
  // empty, where everything may.
  std::vector<uint32_t> early_mask{};
  Funding funding{};      // BatchEngine::try_reserve
  StopMatcher stops{{}};  // of config.stop_sequences, with its memory: built on the caller's thread

  // Of what it keeps.
  PrefixShape kept_shape() const {
    return {.positions = static_cast<int32_t>(tokens.size()),
            .loops = most_loops(),
            .window = window,
            .state = keep->state,
            .max_loops = keep->max_loops};
  }
  bool resumes() const { return base && base->shape().state == PrefixState::loop_rows; }
  // Depth of the deepest rows.
  int32_t most_loops() const { return std::max(loops, base_loops); }
  // Pages that are copied at once, at most: the last one of each slot group, where it is shared.
  size_t most_copies() const { return base || keep ? size_t(kFirstLoopGroup + most_loops()) : 0; }
  // Positions whose K/V will be computed at most: the last token is never fed back.
  int32_t max_positions() const { return positions_with(config.max_tokens); }
  // The same where no more than so many tokens are generated.
  int32_t positions_with(int32_t generated) const {
    const auto length = static_cast<int32_t>(tokens.size());
    switch (kind) {
      case SequenceKind::generate:
        return length + std::min(generated, config.max_tokens) - 1;
      case SequenceKind::score:
        return length - 1;
      case SequenceKind::build:
        break;
    }
    return length;
  }
  // Gives back what the replica's memory has lent it: it is not going to begin. Replica thread.
  void let_go() {
    funding = {};
    base.reset();
  }
};

// What a request is checked against that begins with a cached prefix.
struct BaseTerms {
  std::span<const int32_t> tokens;
  PrefixShape shape;
};

// Errors: invalid_argument with "field: value …, allowed …"; loop_mismatch. `tokenizer` may be
// null: then text prompts and text stop sequences are refused. `base`: of request.prefix or
// request.resume, or null; the result's own `base` is left to whoever can find it.
base::Result<SequenceRequest> check_request(const GenerateRequest& request,
                                            const RequestLimits& limits, const Tokenizer* tokenizer,
                                            const BaseTerms* base = nullptr);
base::Result<SequenceRequest> check_request(const PrefixRequest& request,
                                            const RequestLimits& limits,
                                            const Tokenizer* tokenizer);
base::Result<SequenceRequest> check_request(const ResumeRequest& request,
                                            const RequestLimits& limits,
                                            const Tokenizer* tokenizer);
// A prefix in state loop_rows, to be kept at request.loops as well.
base::Result<SequenceRequest> check_deepen(const BaseTerms& base, const DeepenRequest& request,
                                           const RequestLimits& limits);
base::Result<SequenceRequest> check_request(const ScoreRequest& request,
                                            const RequestLimits& limits);

// Bounds of ModelOptions (tinyloop/options.h), checked before the file is opened.
base::Result<void> check_options(const ModelOptions& options);

}  // namespace tinyloop::engine
