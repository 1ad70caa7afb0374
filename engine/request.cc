#include "engine/request.h"

#include <cmath>
#include <cstdio>
#include <string>

#include "base/limits.h"
#include "engine/fp16_cache.h"
#include "engine/text_decoder.h"
#include "engine/tokenizer.h"

namespace tinyloop::engine {

namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& value,
                         const std::string& bound) {
  throw base::Failure(errc::invalid_argument, field + ": " + value + ", allowed: " + bound);
}

std::string show(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

void check_range(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  refuse(field, std::to_string(value), std::to_string(low) + " to " + std::to_string(high));
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

int32_t check_window(const std::optional<int32_t>& window) {
  const int32_t value = window.value_or(0);
  if (value < 0) refuse("cache_window", std::to_string(value), "0 (unbounded) or more");
  return value;
}

void check_sampling(const GenerateConfig& c) {
  check_real("temperature", c.temperature, c.temperature >= 0, "finite, 0 or more");
  if (c.top_k < 0) refuse("top_k", std::to_string(c.top_k), "0 (off) or more");
  check_real("top_p", c.top_p, c.top_p > 0 && c.top_p <= 1, "above 0, at most 1");
  check_real("min_p", c.min_p, c.min_p >= 0 && c.min_p < 1, "0 to below 1");
  check_real("repetition_penalty", c.repetition_penalty, c.repetition_penalty > 0,
             "finite, above 0");
  if (c.logprobs) check_range("logprobs", *c.logprobs, 0, base::kMaxLogprobs);
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

std::vector<int32_t> prompt_tokens(const GenerateRequest& request, const RequestLimits& limits,
                                   const Tokenizer* tokenizer) {
  if (!request.text.empty() && !request.tokens.empty()) {
    refuse("prompt", "both text and tokens", "exactly one of text and tokens");
  }
  if (request.text.empty()) {
    if (request.tokens.empty()) refuse("prompt", "empty", "at least one token");
    check_tokens("prompt", request.tokens, limits);
    return request.tokens;
  }
  if (!tokenizer) refuse("prompt", "a text", "tokens alone: the model file has no tokenizer");
  auto tokens = tokenizer->encode(request.text);
  if (tokens.empty()) refuse("prompt", "a text without tokens", "at least one token");
  check_tokens("prompt", tokens, limits);  // a tokenizer may know more tokens than the model
  return tokens;
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
                                            const RequestLimits& limits,
                                            const Tokenizer* tokenizer) {
  return checked([&] {
    const GenerateConfig& config = request.config;
    check_range("max_tokens", config.max_tokens, 1, limits.max_seq_len);
    check_sampling(config);
    check_stops(config, limits, tokenizer);
    SequenceRequest checked_request{.kind = SequenceKind::generate,
                                    .tokens = {},
                                    .loops = check_loops(config.loops, limits),
                                    .window = check_window(config.cache_window),
                                    .config = config};
    checked_request.tokens = prompt_tokens(request, limits, tokenizer);
    checked_request.stops = StopMatcher(config.stop_sequences);
    checked_request.stops.reserve(
        size_t(config.max_tokens),
        tokenizer ? TextDecoder::max_output(tokenizer->max_token_bytes()) : 0);
    check_length(checked_request.tokens, config.max_tokens, limits);
    return checked_request;
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
                                    .config = {}};
    checked_request.config.deadline = request.deadline;
    return checked_request;
  });
}

base::Result<void> check_options(const ModelOptions& options) {
  try {
    check_range("max_seq_len", options.max_seq_len, 1, base::kMaxSeqLen);
    check_range("prefill_chunk", options.prefill_chunk, 0, options.max_seq_len);
    check_range("prefill_budget", options.prefill_budget, 1, INT32_MAX);
    check_range("max_sequences", options.max_sequences, 1, base::kMaxSequences);
    check_range("max_queued", options.max_queued, 1, base::kMaxQueued);
    check_range("hold_passes", options.hold_passes, 0, base::kMaxHoldPasses);
    check_range("cpu_threads", options.cpu_threads, 0, base::kMaxCpuThreads);
    if (options.mode == ArithmeticMode::fast) fp16_cache_limit(options).value();
    return {};
  } catch (const base::Failure& failure) {
    return failure.error();
  }
}

}  // namespace tinyloop::engine
