// Calls of the public interface that wait for their answer, and the requests that are measured.
#pragma once

#include <boost/system/system_error.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <future>
#include <utility>
#include <vector>

#include "tinyloop/tinyloop.h"

namespace tinyloop::bench {

// `start(handler)` begins an operation that completes with (error_code, Value). The handler runs on
// the engine's own thread. The future throws boost::system::system_error.
template <class Value, class Start>
std::future<Value> begin(Start&& start) {
  std::promise<Value> promise;
  std::future<Value> future = promise.get_future();
  start([promise = std::move(promise)](const error_code& error, Value value) mutable {
    if (!error) return promise.set_value(std::move(value));
    promise.set_exception(std::make_exception_ptr(boost::system::system_error(error)));
  });
  return future;
}

std::future<GenerateResult> begin_generate(const Model& model, const GenerateRequest& request);
GenerateResult generate(const Model& model, const GenerateRequest& request);
PrefixCache build_prefix(const Model& model, const PrefixRequest& request);
ResumeHandle build_resume(const Model& model, const ResumeRequest& request);
int32_t register_prefix(const Model& model, const PrefixPool& pool, const PrefixRequest& request);

template <class Call>
double elapsed_us(Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Microseconds from the submission until the caller has the whole result.
double call_us(const Model& model, const GenerateRequest& request);
double call_us(const Model& model, const ResumeRequest& request);

// The same tokens every time; which ones does not matter to the speed. Two lists of different
// `salt` have no beginning in common.
std::vector<int32_t> some_tokens(int32_t count, int32_t vocab, int32_t salt);

// Greedy, without an end before max_tokens.
GenerateRequest greedy(std::vector<int32_t> tokens, int32_t loops, int32_t max_tokens);

}  // namespace tinyloop::bench
