// Every bound of a request and of the model's options: the error names field, value and bound.
#include "engine/request.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace tinyloop::engine {
namespace {

constexpr RequestLimits kLimits{
    .vocab = 100, .max_seq_len = 32, .default_loops = 4, .max_loops = 8, .trained_context = 16};

GenerateRequest good() {
  return {.tokens = {1, 2, 3}, .config = {.max_tokens = 5}};
}

struct BadRequest {
  const char* name;
  std::function<void(GenerateRequest&)> spoil;
  const char* message;
};

class RequestBounds : public testing::TestWithParam<BadRequest> {};

TEST_P(RequestBounds, AreNamed) {
  GenerateRequest request = good();
  GetParam().spoil(request);
  const auto result = check_request(request, kLimits, nullptr);
  ASSERT_TRUE(result.has_error());
  EXPECT_EQ(result.error().code, errc::invalid_argument);
  EXPECT_EQ(result.error().detail, GetParam().message);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

INSTANTIATE_TEST_SUITE_P(
    All, RequestBounds,
    testing::Values(
        BadRequest{"empty", [](auto& r) { r.tokens.clear(); },
                   "prompt: empty, allowed: at least one token"},
        BadRequest{"both", [](auto& r) { r.text = "x"; },
                   "prompt: both text and tokens, allowed: exactly one of text and tokens"},
        BadRequest{"text",
                   [](auto& r) {
                     r = {.text = "x"};
                     r.config.max_tokens = 1;
                   },
                   "prompt: a text, allowed: tokens alone: the model file has no tokenizer"},
        BadRequest{"negative_token", [](auto& r) { r.tokens[1] = -1; },
                   "prompt[1]: -1, allowed: 0 to 99"},
        BadRequest{"large_token", [](auto& r) { r.tokens[2] = 100; },
                   "prompt[2]: 100, allowed: 0 to 99"},
        BadRequest{"max_tokens_zero", [](auto& r) { r.config.max_tokens = 0; },
                   "max_tokens: 0, allowed: 1 to 32"},
        BadRequest{
            "too_long", [](auto& r) { r.config.max_tokens = 30; },
            "sequence length: 3 prompt tokens + max_tokens 30 = 33, allowed: max_seq_len 32"},
        BadRequest{"loops_zero", [](auto& r) { r.config.loops = 0; }, "loops: 0, allowed: 1 to 8"},
        BadRequest{"loops_nine", [](auto& r) { r.config.loops = 9; }, "loops: 9, allowed: 1 to 8"},
        BadRequest{"window", [](auto& r) { r.config.cache_window = -1; },
                   "cache_window: -1, allowed: 0 (unbounded) or more"},
        BadRequest{"temperature", [](auto& r) { r.config.temperature = -0.5f; },
                   "temperature: -0.5, allowed: finite, 0 or more"},
        BadRequest{"temperature_nan", [](auto& r) { r.config.temperature = kNan; },
                   "temperature: nan, allowed: finite, 0 or more"},
        BadRequest{"temperature_inf", [](auto& r) { r.config.temperature = kInf; },
                   "temperature: inf, allowed: finite, 0 or more"},
        BadRequest{"top_k", [](auto& r) { r.config.top_k = -1; },
                   "top_k: -1, allowed: 0 (off) or more"},
        BadRequest{"top_p_zero", [](auto& r) { r.config.top_p = 0; },
                   "top_p: 0, allowed: above 0, at most 1"},
        BadRequest{"top_p_nan", [](auto& r) { r.config.top_p = kNan; },
                   "top_p: nan, allowed: above 0, at most 1"},
        BadRequest{"min_p", [](auto& r) { r.config.min_p = 1; }, "min_p: 1, allowed: 0 to below 1"},
        BadRequest{"grammar", [](auto& r) { r.config.grammar = "root ::= x"; },
                   "grammar: 10 bytes, allowed: empty alone: this version computes no grammars"},
        BadRequest{"penalty", [](auto& r) { r.config.repetition_penalty = 0; },
                   "repetition_penalty: 0, allowed: finite, above 0"},
        BadRequest{"penalty_inf", [](auto& r) { r.config.repetition_penalty = kInf; },
                   "repetition_penalty: inf, allowed: finite, above 0"},
        BadRequest{"presence", [](auto& r) { r.config.presence_penalty = 2.5f; },
                   "presence_penalty: 2.5, allowed: -2 to 2"},
        BadRequest{"frequency", [](auto& r) { r.config.frequency_penalty = kNan; },
                   "frequency_penalty: nan, allowed: -2 to 2"},
        BadRequest{"min_tokens", [](auto& r) { r.config.min_tokens = r.config.max_tokens + 1; },
                   "min_tokens: 6, allowed: 0 to 5"},
        BadRequest{"many_biases", [](auto& r) { r.config.logit_bias.resize(1025); },
                   "logit_bias.size: 1025, allowed: 0 to 1024"},
        BadRequest{"bias_token",
                   [](auto& r) {
                     r.config.logit_bias = {{1, 0.5f}, {100, 0.5f}};
                   },
                   "logit_bias[1].token: 100, allowed: 0 to 99"},
        BadRequest{"bias_inf",
                   [](auto& r) {
                     r.config.logit_bias = {{1, -kInf}};
                   },
                   "logit_bias[0].bias: -inf, allowed: finite"},
        BadRequest{"bias_twice",
                   [](auto& r) {
                     r.config.logit_bias = {{1, 0.5f}, {2, 1.0f}, {1, 0.5f}};
                   },
                   "logit_bias: token 1 twice, allowed: each token once"},
        BadRequest{"logprobs", [](auto& r) { r.config.logprobs = 65; },
                   "logprobs: 65, allowed: 0 to 64"},
        BadRequest{"many_stops",
                   [](auto& r) { r.config.stop_sequences.assign(65, std::vector<int32_t>{1}); },
                   "stop_sequences.size: 65, allowed: 0 to 64"},
        BadRequest{"empty_stop", [](auto& r) { r.config.stop_sequences = {StopSequence{}}; },
                   "stop_sequences[0]: neither text nor tokens, allowed: exactly one of text and "
                   "tokens"},
        BadRequest{"long_stop",
                   [](auto& r) {
                     r.config.stop_sequences = {StopSequence(std::vector<int32_t>(1025, 1))};
                   },
                   "stop_sequences[0].size: 1025, allowed: 1 to 1024"},
        BadRequest{"text_stop", [](auto& r) { r.config.stop_sequences = {"end"}; },
                   "stop_sequences[0]: a text, allowed: tokens alone: the model file has no "
                   "tokenizer"},
        BadRequest{"stop_token",
                   [](auto& r) {
                     r.config.stop_sequences = {std::vector<int32_t>{5, 100}};
                   },
                   "stop_sequences[0].tokens[1]: 100, allowed: 0 to 99"}),
    [](const auto& test) { return test.param.name; });

TEST(Request, DefaultsAreFilledIn) {
  const auto result = check_request(good(), kLimits, nullptr);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->loops, 4);
  EXPECT_EQ(result->window, 0);
  EXPECT_EQ(result->max_positions(), 7);  // the last token sampled is never fed back
}

TEST(Request, ExactlyTheLongestFits) {
  GenerateRequest request = good();
  request.config.max_tokens = 29;
  EXPECT_TRUE(check_request(request, kLimits, nullptr).has_value());
}

TEST(Request, ScoreBounds) {
  EXPECT_EQ(check_request(ScoreRequest{}, kLimits).error().detail,
            "tokens: empty, allowed: at least one token");
  EXPECT_EQ(
      check_request(ScoreRequest{.tokens = std::vector<int32_t>(33, 1)}, kLimits).error().detail,
      "sequence length: 33 tokens, allowed: max_seq_len 32");
  EXPECT_EQ(check_request(ScoreRequest{.tokens = {100}}, kLimits).error().detail,
            "tokens[0]: 100, allowed: 0 to 99");
  EXPECT_EQ(check_request(ScoreRequest{.tokens = {1}, .loops = 9}, kLimits).error().detail,
            "loops: 9, allowed: 1 to 8");
  EXPECT_EQ(check_request(ScoreRequest{.tokens = {1}}, kLimits)->max_positions(), 0);
}

struct BadOption {
  const char* name;
  ModelOptions options;
  const char* message;
};

TEST(Options, BoundsAreNamed) {
  const BadOption bad[] = {
      {"len", {.max_seq_len = 0}, "max_seq_len: 0, allowed: 1 to 1048576"},
      {"chunk", {.max_seq_len = 8, .prefill_chunk = 9}, "prefill_chunk: 9, allowed: 0 to 8"},
      {"budget", {.prefill_budget = 0}, "prefill_budget: 0, allowed: 1 to 2147483647"},
      {"sequences", {.max_sequences = 1025}, "max_sequences: 1025, allowed: 1 to 1024"},
      {"queue", {.max_queued = 0}, "max_queued: 0, allowed: 1 to 32768"},
      {"hold", {.hold_passes = 64}, "hold_passes: 64, allowed: 0 to 63"},
      {"threads", {.cpu_threads = -1}, "cpu_threads: -1, allowed: 0 to 256"},
  };
  for (const BadOption& b : bad) {
    const auto result = check_options(b.options);
    ASSERT_TRUE(result.has_error()) << b.name;
    EXPECT_EQ(result.error().detail, b.message);
  }
  EXPECT_TRUE(check_options({}).has_value());
}

}  // namespace
}  // namespace tinyloop::engine
