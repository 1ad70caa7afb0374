// What tests of the blocking interface share.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/use_future.hpp>
#include <boost/system/system_error.hpp>
#include <vector>

#include "tests/actors/served_model.h"
#include "tinyloop/blocking.h"

namespace tinyloop::testing {

using Tokens = std::vector<int32_t>;

// gtest starts a death test's child by clone() from a process with threads, which the sanitizers'
// run-time libraries do not allow for.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kDeathTestsWork = false;
#else
inline constexpr bool kDeathTestsWork = true;
#endif

inline Tokens prompt_of(int32_t seed, int32_t length = 5) {
  Tokens tokens;
  for (int32_t i = 0; i < length; ++i) tokens.push_back(1 + (seed * 31 + i * 7) % 299);
  return tokens;
}

inline GenerateConfig config_of(int32_t max_tokens, std::optional<int32_t> loops = {}) {
  GenerateConfig config;
  config.max_tokens = max_tokens;
  config.loops = loops;
  config.eos = EosMode::ignore;
  return config;
}

// The asynchronous interface's answer, on the same model.
inline Tokens generated(const Model& model, Tokens prompt, GenerateConfig config) {
  GenerateRequest request;
  request.tokens = std::move(prompt);
  request.config = std::move(config);
  request.when_full = WhenFull::wait;
  return model.async_generate(request, boost::asio::use_future).get().tokens;
}

inline Tokens generate(Model* model, const Tokens& prompt, const GenerateConfig& config) {
  return tinyloop::generate(model, prompt.data(), int(prompt.size()), config);
}

// A policy for the time of a test.
class Policy {
 public:
  explicit Policy(ContractPolicy policy) { set_contract_policy(policy); }
  ~Policy() { set_contract_policy(ContractPolicy::abort); }
};

// A model of load_model's; abort is the policy.
class BlockingTest : public ::testing::Test {
 protected:
  BlockingTest() : model_(load_model(small_model().path(), 256)) {}
  ~BlockingTest() override { free_model(model_); }
  void SetUp() override { ASSERT_NE(model_, nullptr); }

  Model* model_;
};

}  // namespace tinyloop::testing
