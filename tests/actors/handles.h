// Prefixes, handles of them, and requests behind them, for tests of reuse.
#pragma once

#include <gtest/gtest.h>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {

// `positions` tokens that depend on `seed`.
inline PrefixRequest prefix_request(int32_t positions, int32_t loops = 3, int32_t window = 0,
                                    int32_t seed = 1) {
  PrefixRequest request{.loops = loops, .cache_window = window};
  for (int32_t i = 0; i < positions; ++i)
    request.tokens.push_back(1 + (seed * 37 + i * 11 + i * i) % 299);
  return request;
}

inline PrefixCache build_cache(const Model& model, const PrefixRequest& request) {
  return model.async_build_prefix(request, boost::asio::use_future).get();
}

inline ResumeHandle build_resume(const Model& model, const PrefixRequest& request,
                                 int32_t max_loops) {
  return model.async_build_resume({request, max_loops}, boost::asio::use_future).get();
}

inline ResumeHandle deepen(const Model& model, const ResumeHandle& handle, int32_t loops) {
  return model.async_deepen({handle, loops}, boost::asio::use_future).get();
}

inline void release(const Model& model, const ReuseHandle& handle) {
  model.async_release(handle, boost::asio::use_future).get();
}

// request(max_tokens, seed) with `further` of its tokens, behind the handle.
inline GenerateRequest behind(const PrefixCache& prefix, int32_t max_tokens, size_t further = 5,
                              int32_t seed = 1) {
  GenerateRequest what = request(max_tokens, seed);
  what.tokens.resize(further);
  what.prefix = prefix;
  return what;
}

inline GenerateRequest resumed(const ResumeHandle& handle, int32_t loops, int32_t max_tokens,
                               size_t further = 0) {
  GenerateRequest what = request(max_tokens);
  what.tokens.resize(further);
  what.resume = handle;
  what.resume_loops = loops;
  return what;
}

// The same request with the whole prompt in it, and without a handle.
inline GenerateRequest without_handle(GenerateRequest what) {
  const ReuseHandle handle = what.prefix ? ReuseHandle(what.prefix) : ReuseHandle(what.resume);
  what.tokens.insert(what.tokens.begin(), handle.tokens().begin(), handle.tokens().end());
  what.config.cache_window = handle.info().cache_window;
  if (what.prefix) what.config.loops = handle.info().loops;
  if (what.resume) what.config.loops = what.resume_loops;
  what.prefix = {};
  what.resume = {};
  what.resume_loops.reset();
  return what;
}

inline void expect_same(const GenerateResult& got, const GenerateResult& expected) {
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.prompt_tokens, expected.prompt_tokens);
  EXPECT_EQ(got.text, expected.text);
  EXPECT_EQ(got.finish_reason, expected.finish_reason);
  EXPECT_EQ(got.loops, expected.loops);
  ASSERT_EQ(got.logprobs.size(), expected.logprobs.size());
  for (size_t i = 0; i < got.logprobs.size(); ++i) {
    const PositionLogprobs &a = got.logprobs[i], &b = expected.logprobs[i];
    EXPECT_EQ(a.chosen.logprob, b.chosen.logprob) << i;
    ASSERT_EQ(a.top.size(), b.top.size());
    for (size_t k = 0; k < a.top.size(); ++k) {
      EXPECT_EQ(a.top[k].token, b.top[k].token);
      EXPECT_EQ(a.top[k].logprob, b.top[k].logprob);
    }
  }
}

// Nothing is kept, used or promised.
inline void expect_nothing_held(const Model& model) {
  const MemoryReport memory = model.memory();
  EXPECT_EQ(memory.pages_used, 0u);
  EXPECT_EQ(memory.page_bytes_used, 0u);
  EXPECT_EQ(memory.cache_reserved, 0u);
  EXPECT_EQ(memory.handles, 0u);
}

// Returns when the replica has taken everything that was sent to it before.
inline void settle(const Model& model) {
  std::promise<void> reached;
  visit_replica(model, [&](engine::BatchEngine&) { reached.set_value(); });
  reached.get_future().wait();
}

}  // namespace tinyloop::testing
