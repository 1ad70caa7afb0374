// What tests of PrefixPool share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {

using Tokens = std::vector<int32_t>;

inline Tokens some_tokens(int32_t seed, int32_t length) {
  Tokens tokens;
  for (int32_t i = 0; i < length; ++i) tokens.push_back((seed * 37 + i * 11 + i * i) % 300);
  return tokens;
}

inline Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline GenerateRequest prompt(Tokens tokens, int32_t loops = 3, int32_t window = 0) {
  GenerateRequest request;
  request.tokens = std::move(tokens);
  request.config.max_tokens = 3;
  request.config.loops = loops;
  request.config.cache_window = window;
  request.config.eos = EosMode::ignore;
  request.when_full = WhenFull::wait;
  return request;
}

inline PrefixRequest prefix(Tokens tokens, int32_t loops = 3, int32_t window = 0) {
  return {.tokens = std::move(tokens),
          .loops = loops,
          .cache_window = window,
          .when_full = WhenFull::wait};
}

class PoolTest : public ::testing::Test {
 protected:
  int32_t enter(const PrefixPool& pool, PrefixRequest request) {
    return model_.async_register_prefix(pool, std::move(request), boost::asio::use_future).get();
  }
  GenerateResult generate(GenerateRequest request, const PrefixPool& pool = {}) {
    request.pool = pool;
    return model_.async_generate(std::move(request), boost::asio::use_future).get();
  }
  PoolEntryInfo info(const PrefixPool& pool, int32_t id) {
    return model_.async_prefix_info(pool, id, boost::asio::use_future).get();
  }
  uint64_t prompt_tokens() const { return model_.statistics().prompt_tokens; }

  Engine engine_{quiet()};
  Model model_ = engine_.load(small_model().path(), small_options());
};

}  // namespace tinyloop::testing
