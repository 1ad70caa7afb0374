#include "engine/request.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "base/bounds.h"
#include "base/limits.h"
#include "engine/fp16_cache.h"
#include "engine/text_decoder.h"
#include "engine/tokenizer.h"

namespace tinyloop::engine {

namespace {

using base::check_range;
using base::refuse;

std::string show(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

// `ok` is false for NaN, whatever the bound.
void check_real(const char* field, double value, bool ok, const char* bound) {
  if (!ok || !std::isfinite(value)) refuse(field, show(value), bound);
}

void check_tokens(const char* field, const std::vector<int32_t>& tokens,
                  const RequestLimits& limits) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < limits.vocab) continue;
    refuse(std::string(field) + "[" + std::to_string(i) + "]", std::to_string(tokens[i]),
           "0 to " + std::to_string(limits.vocab - 1));
  }
}

void check_length(const std::vector<int32_t>& tokens, int32_t extra, const RequestLimits& limits) {
  const int64_t total = int64_t(tokens.size()) + extra;
  if (total <= limits.max_seq_len) return;
  const std::string parts = extra == 0
                                ? std::to_string(tokens.size()) + " tokens"
                                : std::to_string(tokens.size()) + " prompt tokens + max_tokens " +
                                      std::to_string(extra) + " = " + std::to_string(total);
  refuse("sequence length", parts, "max_seq_len " + std::to_string(limits.max_seq_len));
}

int32_t check_loops(const std::optional<int32_t>& loops, const RequestLimits& limits) {
  const int32_t value = loops.value_or(limits.default_loops);
  check_range("loops", value, 1, limits.max_loops);
  return value;
}

int32_t check_window(const std::optional<int32_t>& window, const BaseTerms* base = nullptr) {
  const int32_t value = window.value_or(base ? base->shape.window : 0);
  if (value < 0) refuse("cache_window", std::to_string(value), "0 (unbounded) or more");
  if (base && value != base->shape.window) {
    refuse("cache_window", std::to_string(value),
           std::to_string(base->shape.window) + ", that of the handle");
  }
  return value;
}

void check_priority(int32_t priority) {
  check_range("priority", priority, -base::kMaxPriority, base::kMaxPriority);
}

void check_sampling(const GenerateConfig& c) {
  check_real("temperature", c.temperature, c.temperature >= 0, "finite, 0 or more");
  if (c.top_k < 0) refuse("top_k", std::to_string(c.top_k), "0 (off) or more");
  check_real("top_p", c.top_p, c.top_p > 0 && c.top_p <= 1, "above 0, at most 1");
  check_real("min_p", c.min_p, c.min_p >= 0 && c.min_p < 1, "0 to below 1");
  check_real("repetition_penalty", c.repetition_penalty, c.repetition_penalty > 0,
             "finite, above 0");
  for (const auto& [field, value] : {std::pair("presence_penalty", c.presence_penalty),
                                     std::pair("frequency_penalty", c.frequency_penalty)}) {
    check_real(field, value, std::abs(value) <= base::kMaxPenalty, "-2 to 2");
  }
  check_range("min_tokens", c.min_tokens, 0, c.max_tokens);
  if (c.logprobs) check_range("logprobs", *c.logprobs, 0, base::kMaxLogprobs);
}

std::vector<kernels::LogitBias> checked_biases(const std::vector<LogitBias>& biases,
                                               const RequestLimits& limits) {
  check_range("logit_bias.size", int64_t(biases.size()), 0, base::kMaxLogitBias);
  std::vector<kernels::LogitBias> checked;
  for (size_t i = 0; i < biases.size(); ++i) {
    const auto& [token, bias] = biases[i];
    const std::string field = "logit_bias[" + std::to_string(i) + "]";
    check_range(field + ".token", token, 0, limits.vocab - 1);
    check_real((field + ".bias").c_str(), bias, true, "finite");
    checked.push_back({token, bias});
  }
  std::vector<int32_t> tokens;
  for (const LogitBias& bias : biases) tokens.push_back(bias.token);
  std::sort(tokens.begin(), tokens.end());
  if (const auto twice = std::adjacent_find(tokens.begin(), tokens.end()); twice != tokens.end()) {
    refuse("logit_bias", "token " + std::to_string(*twice) + " twice", "each token once");
  }
  return checked;
}

// All tokens but those that would end the output (GenerateConfig::min_tokens).
std::vector<uint32_t> early_mask(const GenerateConfig& config, const RequestLimits& limits,
                                 const Tokenizer* tokenizer) {
  if (config.min_tokens == 0) return {};
  std::vector<uint32_t> mask(kernels::mask_words(limits.vocab), ~0u);
  bool any = false;
  const auto ban = [&](int32_t token) {
    if (token < 0 || token >= limits.vocab) return;
    mask[size_t(token) / 32] &= ~(1u << token % 32);
    any = true;
  };
  if (config.eos == EosMode::stop && tokenizer && tokenizer->eos()) ban(*tokenizer->eos());
  for (const StopSequence& stop : config.stop_sequences) {
    if (stop.tokens.size() == 1) ban(stop.tokens[0]);
  }
  return any ? mask : std::vector<uint32_t>();
}

// Of requests that sample nothing: the terms that they share with those that do.
template <class Request>
GenerateConfig checked_terms(const Request& request) {
  check_priority(request.priority);
  GenerateConfig config;
  config.deadline = request.deadline;
  config.priority = request.priority;
  return config;
}

// A constraint that is not kept must not be taken for one that is.
void check_grammar(const std::string& grammar) {
  if (grammar.empty()) return;
  refuse("grammar", std::to_string(grammar.size()) + " bytes",
         "empty alone: this version computes no grammars");
}

void check_stops(const GenerateConfig& config, const RequestLimits& limits,
                 const Tokenizer* tokenizer) {
  check_range("stop_sequences.size", int64_t(config.stop_sequences.size()), 0,
              base::kMaxStopSequences);
  for (size_t i = 0; i < config.stop_sequences.size(); ++i) {
    const StopSequence& stop = config.stop_sequences[i];
    const std::string field = "stop_sequences[" + std::to_string(i) + "]";
    if (stop.text.empty() == stop.tokens.empty()) {
      refuse(field, stop.text.empty() ? "neither text nor tokens" : "both text and tokens",
             "exactly one of text and tokens");
    }
    check_range(field + ".size", int64_t(stop.text.size() + stop.tokens.size()), 1,
                int64_t(base::kMaxStopLength));
    if (!stop.text.empty() && !tokenizer) {
      refuse(field, "a text", "tokens alone: the model file has no tokenizer");
    }
    check_tokens((field + ".tokens").c_str(), stop.tokens, limits);
  }
}

// The tokens of a prompt that is given as a text or as tokens; neither: where that is allowed.
std::vector<int32_t> own_tokens(const std::string& text, const std::vector<int32_t>& tokens,
                                const RequestLimits& limits, const Tokenizer* tokenizer,
                                const EncodeOptions& options) {
  if (!text.empty() && !tokens.empty()) {
    refuse("prompt", "both text and tokens", "exactly one of text and tokens");
  }
  if (!text.empty() && !tokenizer) {
    refuse("prompt", "a text", "tokens alone: the model file has no tokenizer");
  }
  // A tokenizer may know more tokens than the model.
  auto result = text.empty() ? tokens : tokenizer->encode(text, options);
  check_tokens("prompt", result, limits);
  return result;
}

std::vector<int32_t> prompt_tokens(const std::string& text, const std::vector<int32_t>& tokens,
                                   const RequestLimits& limits, const Tokenizer* tokenizer) {
  auto result = own_tokens(text, tokens, limits, tokenizer, {});
  if (result.empty()) {
    refuse("prompt", text.empty() ? "empty" : "a text without tokens", "at least one token");
  }
  return result;
}

// Prefix, then what is new.
std::vector<int32_t> continued_tokens(const GenerateRequest& request, const BaseTerms& base,
                                      const RequestLimits& limits, const Tokenizer* tokenizer) {
  const auto further =
      own_tokens(request.text, request.tokens, limits, tokenizer, {.add_bos = false});
  std::vector<int32_t> tokens;
  tokens.reserve(base.tokens.size() + further.size());
  tokens.assign(base.tokens.begin(), base.tokens.end());
  tokens.insert(tokens.end(), further.begin(), further.end());
  return tokens;
}

// Depth of what follows the prefix, and of the prefix itself.
struct Depths {
  int32_t loops;
  int32_t base_loops;
};

Depths check_depths(const GenerateRequest& request, const BaseTerms& base,
                    const RequestLimits& limits) {
  const std::optional<int32_t>& loops = request.config.loops;
  if (loops) check_range("loops", *loops, 1, limits.max_loops);
  if (!base.shape.resumes()) {
    if (loops.value_or(base.shape.loops) == base.shape.loops) {
      return {base.shape.loops, base.shape.loops};
    }
    throw base::Failure(errc::loop_mismatch, "loops: " + std::to_string(*loops) +
                                                 ", the prefix was computed at " +
                                                 std::to_string(base.shape.loops));
  }
  const int32_t deeper = request.resume_loops.value_or(loops.value_or(limits.default_loops));
  check_range("resume_loops", deeper, base.shape.loops,
              std::min(base.shape.max_loops, limits.max_loops));
  const int32_t following = loops.value_or(deeper);
  check_range("loops", following, 1, deeper);
  return {following, deeper};
}

template <class F>
auto checked(F&& build) -> base::Result<decltype(build())> {
  try {
    return build();
  } catch (const base::Failure& failure) {
    return failure.error();
  }
}

}  // namespace

base::Result<SequenceRequest> check_request(const GenerateRequest& request,
                                            const RequestLimits& limits, const Tokenizer* tokenizer,
                                            const BaseTerms* base) {
  return checked([&] {
    const GenerateConfig& config = request.config;
    check_range("max_tokens", config.max_tokens, 1, limits.max_seq_len);
    check_sampling(config);
    check_priority(config.priority);
    check_grammar(config.grammar);
    check_stops(config, limits, tokenizer);
    SequenceRequest result{.kind = SequenceKind::generate, .tokens = {}, .config = config};
    result.window = check_window(config.cache_window, base);
    if (base) {
      const Depths depths = check_depths(request, *base, limits);
      result.loops = depths.loops;
      result.base_loops = depths.base_loops;
      result.base_positions = base->shape.positions;
      result.tokens = continued_tokens(request, *base, limits, tokenizer);
    } else {
      result.loops = check_loops(config.loops, limits);
      result.tokens = prompt_tokens(request.text, request.tokens, limits, tokenizer);
    }
    result.biases = checked_biases(config.logit_bias, limits);
    result.early_mask = early_mask(config, limits, tokenizer);
    result.stops = StopMatcher(config.stop_sequences);
    result.stops.reserve(size_t(config.max_tokens),
                         tokenizer ? TextDecoder::max_output(tokenizer->max_token_bytes()) : 0);
    check_length(result.tokens, config.max_tokens, limits);
    return result;
  });
}

namespace {

SequenceRequest checked_prefix(const PrefixRequest& request, const RequestLimits& limits,
                               const Tokenizer* tokenizer) {
  SequenceRequest result{.kind = SequenceKind::build,
                         .tokens = prompt_tokens(request.text, request.tokens, limits, tokenizer),
                         .loops = check_loops(request.loops, limits),
                         .window = check_window(request.cache_window),
                         .config = checked_terms(request)};
  check_length(result.tokens, 0, limits);
  return result;
}

}  // namespace

base::Result<SequenceRequest> check_request(const PrefixRequest& request,
                                            const RequestLimits& limits,
                                            const Tokenizer* tokenizer) {
  return checked([&] {
    SequenceRequest result = checked_prefix(request, limits, tokenizer);
    result.keep = KeepRequest{PrefixState::final_row, result.loops};
    return result;
  });
}

base::Result<SequenceRequest> check_request(const ResumeRequest& request,
                                            const RequestLimits& limits,
                                            const Tokenizer* tokenizer) {
  return checked([&] {
    SequenceRequest result = checked_prefix(request.prefix, limits, tokenizer);
    check_range("max_loops", request.max_loops, result.loops, base::kMaxResumeLoops);
    result.keep = KeepRequest{PrefixState::loop_rows, request.max_loops};
    return result;
  });
}

base::Result<SequenceRequest> check_deepen(const BaseTerms& base, const DeepenRequest& request,
                                           const RequestLimits& limits) {
  return checked([&] {
    const int32_t loops = request.loops;
    check_range("loops", loops, base.shape.loops, std::min(base.shape.max_loops, limits.max_loops));
    SequenceRequest result{.kind = SequenceKind::build,
                           .tokens = {base.tokens.begin(), base.tokens.end()},
                           .loops = loops,
                           .window = base.shape.window,
                           .config = checked_terms(request)};
    result.base_positions = base.shape.positions;
    result.base_loops = loops;
    result.keep = KeepRequest{PrefixState::loop_rows, base.shape.max_loops};
    return result;
  });
}

base::Result<SequenceRequest> check_request(const ScoreRequest& request,
                                            const RequestLimits& limits) {
  return checked([&] {
    if (request.tokens.empty()) refuse("tokens", "empty", "at least one token");
    check_tokens("tokens", request.tokens, limits);
    check_length(request.tokens, 0, limits);
    SequenceRequest checked_request{.kind = SequenceKind::score,
                                    .tokens = request.tokens,
                                    .loops = check_loops(request.loops, limits),
                                    .window = check_window(request.cache_window),
                                    .config = checked_terms(request)};
    return checked_request;
  });
}

base::Result<void> check_options(const ModelOptions& options) {
  try {
    check_range("replicas", options.replicas, 0, base::kMaxReplicas);
    check_range("max_seq_len", options.max_seq_len, 1, base::kMaxSeqLen);
    check_range("prefill_chunk", options.prefill_chunk, 0, options.max_seq_len);
    check_range("prefill_budget", options.prefill_budget, 1, INT32_MAX);
    check_range("reserve_tokens", options.reserve_tokens, 1, base::kMaxSeqLen);
    check_range("max_sequences", options.max_sequences, 1, base::kMaxSequences);
    check_range("max_queued", options.max_queued, 1, base::kMaxQueued);
    check_range("hold_passes", options.hold_passes, 0, base::kMaxHoldPasses);
    check_range("max_handles", options.max_handles, 1, base::kMaxHandles);
    check_range("trace_events", options.trace_events, 0, base::kMaxTraceEvents);
    check_range("cpu_threads", options.cpu_threads, 0, base::kMaxCpuThreads);
    if (options.mode == ArithmeticMode::fast) fp16_cache_limit(options).value();
    return {};
  } catch (const base::Failure& failure) {
    return failure.error();
  }
}

}  // namespace tinyloop::engine
