#include "bench_timing.h"

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <limits>
#include <thread>
#include <vector>

namespace tinyloop::cli {

namespace {

using Clock = std::chrono::steady_clock;

struct Pending {
  double submitted_us;  // since the batch began
  std::future<GenerateResult> result;
};

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

GenerateRequest some_request(const Model& model, const PromptShape& shape, int32_t salt) {
  GenerateRequest request;
  request.tokens = some_tokens(shape.tokens, model.info().vocab, salt);
  request.when_full = WhenFull::wait;
  request.config.loops = shape.loops;
  request.config.max_tokens = 1;
  return request;
}

std::vector<Pending> submit(const Model& model, const std::vector<GenerateRequest>& requests,
                            Clock::time_point begin) {
  std::vector<Pending> batch;
  batch.reserve(requests.size());
  for (const GenerateRequest& request : requests) {
    const double submitted_us = microseconds_since(begin);
    batch.push_back({submitted_us, model.async_generate(request, boost::asio::use_future)});
  }
  return batch;
}

GenerateRequest continuation(const PrefixCache& context, const GenerateConfig& sampling,
                             int32_t max_tokens, uint64_t caller) {
  GenerateRequest request;
  request.prefix = context;
  request.when_full = WhenFull::wait;
  request.config = sampling;
  request.config.max_tokens = max_tokens;
  request.config.eos = EosMode::ignore;
  request.config.seed += caller;
  return request;
}

bool ready(const std::future<GenerateResult>& result) {
  return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// A request that the replica works on while a batch is submitted. Without it the first of the batch
// would enter alone and stay out of step with the others. Returns when it has begun.
std::future<GenerateResult> open_batch(const Model& model, int32_t loops) {
  const PromptShape one = {.prompts = 1, .tokens = kOpenerTokens, .loops = loops};
  auto result = model.async_generate(some_request(model, one, -1), boost::asio::use_future);
  while (model.health().replicas.at(0).active == 0 && !ready(result)) std::this_thread::yield();
  return result;
}

}  // namespace

std::vector<int32_t> some_tokens(int32_t count, int32_t vocab, int32_t salt) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) {
    const int64_t token = (int64_t{i} * 7919 + int64_t{salt} * 104729) % vocab;
    tokens.push_back(static_cast<int32_t>(token < 0 ? token + vocab : token));
  }
  return tokens;
}

double time_prefill(const Model& model, const PromptShape& shape) {
  std::vector<GenerateRequest> requests;
  for (int32_t i = 0; i < shape.prompts; ++i) requests.push_back(some_request(model, shape, i));
  const auto begin = Clock::now();
  for (Pending& pending : submit(model, requests, begin)) pending.result.get();
  return microseconds_since(begin);
}

void add_contexts(const Model& model, const PromptShape& shape,
                  std::vector<PrefixCache>& contexts) {
  std::vector<std::future<PrefixCache>> pending;
  for (auto i = int32_t(contexts.size()); i < shape.prompts; ++i) {
    PrefixRequest request;
    request.tokens = some_tokens(shape.tokens, model.info().vocab, i);
    request.loops = shape.loops;
    request.when_full = WhenFull::wait;
    pending.push_back(model.async_build_prefix(request, boost::asio::use_future));
  }
  for (auto& context : pending) contexts.push_back(context.get());
}

double time_decode(const Model& model, std::span<const PrefixCache> contexts,
                   const Sampling& sampling, int32_t gen) {
  std::vector<GenerateRequest> requests;
  for (size_t i = 0; i < contexts.size(); ++i) {
    const GenerateConfig& kind = sampling.kinds[i % sampling.kinds.size()];
    requests.push_back(continuation(contexts[i], kind, gen + 1, i));
  }
  std::future<GenerateResult> opener;
  if (contexts.size() > 1) opener = open_batch(model, contexts.front().info().loops);
  double first_us = std::numeric_limits<double>::infinity(), last_us = 0;
  for (Pending& pending : submit(model, requests, Clock::now())) {
    const Timings timings = pending.result.get().timings;
    const double token_us = pending.submitted_us + timings.queue_us + timings.prefill_us;
    first_us = std::min(first_us, token_us);
    last_us = std::max(last_us, token_us + timings.decode_us);
  }
  if (opener.valid()) opener.get();
  return last_us - first_us;
}

}  // namespace tinyloop::cli
