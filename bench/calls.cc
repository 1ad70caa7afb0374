#include "bench/calls.h"

#include <chrono>
#include <ctime>

namespace tinyloop::bench {

namespace {

Clock the_clock = Clock::wall;

}  // namespace

void set_clock(Clock clock) {
  the_clock = clock;
}

Clock clock() {
  return the_clock;
}

double now_us() {
  if (the_clock == Clock::cpu) return double(std::clock()) * (1e6 / CLOCKS_PER_SEC);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

std::future<GenerateResult> begin_generate(const Model& model, const GenerateRequest& request) {
  return begin<GenerateResult>(
      [&](auto handler) { model.async_generate(request, std::move(handler)); });
}

GenerateResult generate(const Model& model, const GenerateRequest& request) {
  return begin_generate(model, request).get();
}

PrefixCache build_prefix(const Model& model, const PrefixRequest& request) {
  return begin<PrefixCache>(
             [&](auto handler) { model.async_build_prefix(request, std::move(handler)); })
      .get();
}

ResumeHandle build_resume(const Model& model, const ResumeRequest& request) {
  return begin<ResumeHandle>(
             [&](auto handler) { model.async_build_resume(request, std::move(handler)); })
      .get();
}

int32_t register_prefix(const Model& model, const PrefixPool& pool, const PrefixRequest& request) {
  return begin<int32_t>(
             [&](auto handler) { model.async_register_prefix(pool, request, std::move(handler)); })
      .get();
}

double call_us(const Model& model, const GenerateRequest& request) {
  return elapsed_us([&] { generate(model, request); });
}

double call_us(const Model& model, const ResumeRequest& request) {
  ResumeHandle handle;  // dropped when the time has been taken
  return elapsed_us([&] { handle = build_resume(model, request); });
}

double decode_token_us(const Model& model, GenerateRequest request, int32_t tokens) {
  request.config.max_tokens = tokens + 1;
  if (clock() == Clock::wall) return generate(model, request).timings.decode_us / tokens;
  const double all = call_us(model, request);
  request.config.max_tokens = 1;
  return (all - call_us(model, request)) / tokens;
}

std::vector<int32_t> some_tokens(int32_t count, int32_t vocab, int32_t salt) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>((int64_t{i} * 7919 + int64_t{salt} * 104729) % vocab));
  }
  return tokens;
}

GenerateRequest greedy(std::vector<int32_t> tokens, int32_t loops, int32_t max_tokens) {
  GenerateRequest request;
  request.tokens = std::move(tokens);
  request.config.loops = loops;
  request.config.max_tokens = max_tokens;
  request.config.eos = EosMode::ignore;
  return request;
}

}  // namespace tinyloop::bench
