// Calls of the public interface that wait for their answer, and the requests that are measured.
#pragma once

#include <boost/system/system_error.hpp>
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

// What times are read from. The CPU time of the whole process leaves out what other programs take
// from a machine, but waiting, too: it says nothing about a GPU. Set once, before measuring.
enum class Clock : uint8_t { wall, cpu };
void set_clock(Clock clock);
Clock clock();
double now_us();

template <class Call>
double elapsed_us(Call&& call) {
  const double begin = now_us();
  call();
  return now_us() - begin;
}

// Microseconds from the submission until the caller has the whole result.
double call_us(const Model& model, const GenerateRequest& request);
double call_us(const Model& model, const ResumeRequest& request);
// Of one token, the mean of `tokens` that the request goes on to decode behind its first.
double decode_token_us(const Model& model, GenerateRequest request, int32_t tokens);

// The same tokens every time; which ones does not matter to the speed. Two lists of different
// `salt` have no beginning in common.
std::vector<int32_t> some_tokens(int32_t count, int32_t vocab, int32_t salt);

// Greedy, without an end before max_tokens.
GenerateRequest greedy(std::vector<int32_t> tokens, int32_t loops, int32_t max_tokens);

}  // namespace tinyloop::bench
