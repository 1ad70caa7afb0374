// Requests that sample: what they get is what their terms make of the logits, token for token.
#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <numeric>

#include "engine/tokenizer.h"
#include "kernels/sampling_math.h"
#include "tests/support/engine_driver.h"
#include "tests/support/random_model.h"
#include "tests/support/sample_reference.h"
#include "tests/support/test_device.h"

namespace tinyloop::testing {
namespace {

class SamplingTest : public ::testing::Test {
 protected:
  static ModelOptions options() {
    return device_options(
        {.max_seq_len = 256, .prefill_budget = 16, .max_sequences = 24, .cpu_threads = 2});
  }

  static GenerateRequest request(int32_t max_tokens, uint64_t seed = 0) {
    GenerateRequest r{.tokens = {10, 20, 30, 20}};
    r.config.max_tokens = max_tokens;
    r.config.loops = 2;
    r.config.seed = seed;
    r.config.temperature = 0.9f;
    return r;
  }

  // The terms of a request, by the documentation of GenerateConfig alone.
  static SampleCase terms_of(const GenerateRequest& r, const std::vector<int32_t>& output,
                             int32_t vocab, std::optional<int32_t> eos) {
    const GenerateConfig& config = r.config;
    SampleCase row{.terms = {.seed = config.seed,
                             .position = r.tokens.size() + output.size(),
                             .candidates = config.logprobs.value_or(-1),
                             .top_k = config.top_k,
                             .temperature = config.temperature,
                             .top_p = config.top_p,
                             .min_p = config.min_p,
                             .repetition_penalty = config.repetition_penalty,
                             .presence_penalty = config.presence_penalty,
                             .frequency_penalty = config.frequency_penalty}};
    row.counts.resize(size_t(vocab));
    for (const int32_t token : r.tokens) row.counts[size_t(token)] |= kernels::kInPrompt;
    for (const int32_t token : output) ++row.counts[size_t(token)];
    for (const auto& [token, bias] : config.logit_bias) row.biases.push_back({token, bias});
    if (int32_t(output.size()) < config.min_tokens && config.eos == EosMode::stop && eos) {
      row.mask.assign(kernels::mask_words(vocab), ~0u);
      row.mask[size_t(*eos) / 32] &= ~(1u << *eos % 32);
    }
    return row;
  }

  void expect_definition(const GenerateRequest& r, const RecordingClient& client) {
    const auto tokenizer = driver_.engine().tokenizer();
    std::vector<int32_t> output;
    for (size_t i = 0; i < client.tokens.size(); ++i) {
      const auto row = terms_of(r, output, model_.shape.vocab, tokenizer->eos());
      const auto want = expected_sample(client.logits[i], row);
      ASSERT_EQ(client.tokens[i], want.token) << "token " << i << ", seed " << r.config.seed;
      output.push_back(client.tokens[i]);
      if (!r.config.logprobs) continue;
      const PositionLogprobs& got = client.logprobs[i];
      EXPECT_EQ(got.chosen.token, want.token);
      EXPECT_EQ(std::bit_cast<uint32_t>(got.chosen.logprob), want.logprob);
      ASSERT_EQ(got.top.size(), want.candidates.size());
      for (size_t c = 0; c < got.top.size(); ++c) {
        EXPECT_EQ(got.top[c].token, want.candidates[c].first);
        EXPECT_EQ(std::bit_cast<uint32_t>(got.top[c].logprob), want.candidates[c].second);
      }
    }
  }

  std::unique_ptr<RecordingClient> start(const GenerateRequest& r) {
    auto client = std::make_unique<RecordingClient>(RecordingClient::Logits::kept);
    driver_.admit(driver_.check(r), *client);
    return client;
  }

  std::unique_ptr<RecordingClient> run(const GenerateRequest& r) {
    auto client = start(r);
    driver_.run();
    return client;
  }

  RandomModel model_ = write_random_model();
  EngineDriver driver_{model_.path(), options()};
};

TEST_F(SamplingTest, EveryTokenIsThatOfTheDefinition) {
  std::vector<GenerateRequest> requests;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    GenerateRequest r = request(20, seed);
    r.config.loops = int32_t(1 + seed % 4);
    if (seed % 5 == 0) r.config.temperature = 0.0f;
    if (seed % 2 == 0) r.config.top_k = 30;
    if (seed % 3 == 0) r.config.top_p = 0.8f;
    if (seed % 4 == 1) r.config.min_p = 0.05f;
    if (seed % 3 == 1) r.config.repetition_penalty = 1.3f;
    if (seed % 4 == 2) r.config.presence_penalty = 0.7f;
    if (seed % 4 == 3) r.config.frequency_penalty = -0.6f;
    if (seed % 5 == 1) r.config.logit_bias = {{7, 4.0f}, {20, -5.0f}};
    if (seed % 6 == 2) r.config.min_tokens = 12;
    if (seed % 7 < 3) r.config.logprobs = int32_t(seed % 7) * 9;
    requests.push_back(r);
  }
  std::vector<std::unique_ptr<RecordingClient>> clients;
  for (const auto& r : requests) clients.push_back(start(r));
  driver_.run();
  for (size_t i = 0; i < requests.size(); ++i) expect_definition(requests[i], *clients[i]);
}

TEST_F(SamplingTest, NobodyEndsBeforeMinTokens) {
  GenerateRequest r = request(60);
  r.config.temperature = 3.0f;  // meets every token sooner or later
  r.config.stop_sequences = {std::vector<int32_t>{17}};
  size_t shortest = 60, shortest_free = 60;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    r.config.seed = seed;
    r.config.logit_bias = {{17, 4.0f}};
    r.config.min_tokens = 0;
    shortest_free = std::min(shortest_free, run(r)->tokens.size());
    r.config.min_tokens = 25;
    shortest = std::min(shortest, run(r)->tokens.size());
  }
  EXPECT_LT(shortest_free, 25u);
  EXPECT_GT(shortest, 25u);  // the first that may end it is the 26th
  EXPECT_LT(shortest, 60u);
}

TEST_F(SamplingTest, AllMaskedIsAnEndOfItsOwn) {
  const RandomModel small = write_random_model({.vocab = 64, .tokenizer = false});
  EngineDriver driver(small.path(), options());
  GenerateRequest r = request(8), other = request(8, 5);
  r.config.min_tokens = 4;
  for (int32_t token = 0; token < 64; ++token) {
    r.config.stop_sequences.push_back(std::vector<int32_t>{token});
  }
  RecordingClient masked, free;
  driver.admit(driver.check(r), masked);
  driver.admit(driver.check(other), free);
  driver.run();
  EXPECT_EQ(masked.finished, FinishReason::all_masked);
  EXPECT_TRUE(masked.tokens.empty());
  EXPECT_EQ(free.finished, FinishReason::max_tokens);
  EXPECT_EQ(free.tokens.size(), 8u);
}

TEST_F(SamplingTest, ScoresAreTheLogprobsOfGeneration) {
  GenerateRequest r = request(12);
  r.config.logprobs = 0;
  const auto generated = run(r);
  ScoreRequest score{.tokens = r.tokens, .loops = r.config.loops};
  score.tokens.insert(score.tokens.end(), generated->tokens.begin(), generated->tokens.end());
  RecordingClient client(RecordingClient::Logits::unasked);
  driver_.admit(driver_.check(score), client);
  driver_.run();
  ASSERT_EQ(client.scores.size(), score.tokens.size() - 1);
  for (size_t i = 0; i < generated->tokens.size(); ++i) {
    EXPECT_EQ(client.scores[r.tokens.size() - 1 + i], generated->logprobs[i].chosen.logprob);
  }
}

TEST_F(SamplingTest, WithoutMemoryOnlyThoseThatNeedItFail) {
  GenerateRequest plain = request(4), penalised = request(4);
  penalised.config.presence_penalty = 1.0f;
  (void)run(plain);
  kernels::DeviceMemory& memory = driver_.backend().memory();
  for (const uint64_t nth : {1u, 1u}) {  // the changed logits, which stay; then the counts
    memory.fail_allocation(nth);
    RecordingClient client;
    try {
      driver_.engine().admit(driver_.check(penalised), client);
      ADD_FAILURE() << "admitted";
    } catch (const base::Failure& failure) {
      EXPECT_EQ(failure.error().code, errc::out_of_memory);
    }
    memory.fail_allocation(0);
    EXPECT_EQ(run(plain)->tokens.size(), 4u);
  }
  EXPECT_EQ(run(penalised)->tokens.size(), 4u);
  const MemoryReport report = driver_.memory();
  size_t listed = 0;
  for (const auto& buffer : report.buffer_list) listed += buffer.bytes;
  EXPECT_EQ(listed, report.buffers);
}

}  // namespace
}  // namespace tinyloop::testing
