// What requests ask for.
#include <algorithm>

#include "stress/sim/clients.h"

namespace tinyloop::sim {

namespace {

constexpr int32_t kMostPrompt = 40;
constexpr int32_t kMostTokens = 20;

}  // namespace

// A story's beginning, and perhaps something of its own.
std::vector<int32_t> Clients::draw_tokens() {
  const std::vector<int32_t>& story = random_.of(stories_);
  const int32_t length =
      random_.one_in(3) ? 16 * random_.between(1, 2) : random_.between(1, kMostPrompt);
  std::vector<int32_t> tokens(story.begin(), story.begin() + length);
  if (random_.one_in(3)) {
    for (size_t i = random_.below(tokens.size()); i < tokens.size(); ++i) {
      tokens[i] = random_.between(0, 2);
    }
  }
  return tokens;
}

void Clients::draw_terms(Op& op) {
  op.when_full = random_.of({WhenFull::fail, WhenFull::fail, WhenFull::wait, WhenFull::wait,
                             WhenFull::wait_for_requests});
  if (random_.one_in(4)) op.priority = random_.of({-16, -1, 1, 2, 16});
  if (random_.one_in(8)) {
    op.deadline = scheduler_.clock().peek() + std::chrono::microseconds(random_.between(-5, 3000));
  }
}

// A handle of this model, as a rule, and what it means for the depths.
void Clients::draw_handle(Op& op, GenerateRequest& request) {
  const HandleRef handle = some_handle();
  if (!handle || !handle->is_held()) return;
  if (handle->slot != op.slot && !random_.one_in(20)) return;
  op.handle = handle;
  op.foreign = handle->slot != op.slot;
  const bool alone = random_.one_in(3);
  if (alone) request.tokens.clear();
  if (request.tokens.size() > 10) request.tokens.resize(10);
  op.tokens = handle->tokens;
  op.tokens.insert(op.tokens.end(), request.tokens.begin(), request.tokens.end());
  op.base_positions = int32_t(handle->tokens.size());
  op.window = handle->window;
  request.config.cache_window.reset();
  request.config.loops.reset();
  if (!handle->resumes()) {
    request.prefix = handle->prefix;
    op.loops = op.base_loops = handle->loops;
    if (random_.one_in(10)) {
      request.config.loops = handle->loops == 1 ? 2 : 1;
      op.mismatched = true;
    }
    return;
  }
  request.resume = handle->resume;
  const int32_t deepest = std::min(handle->max_loops, op.slot->sim().shape().max_iterations);
  op.base_loops = random_.between(handle->loops, deepest);
  op.loops = random_.one_in(3) ? random_.between(1, op.base_loops) : op.base_loops;
  request.resume_loops = op.base_loops;
  request.config.loops = op.loops;
}

void Clients::break_bound(Op& op, GenerateRequest& request) {
  op.breaks_bound = true;
  switch (random_.below(4)) {
    case 0:
      request.config.max_tokens = 0;
      return;
    case 1:
      request.tokens.assign(1, kVocab);
      return;
    case 2:
      request.config.temperature = -1;
      return;
    default:
      request.config.max_tokens = op.slot->options.max_seq_len + 1;
      return;
  }
}

GenerateRequest Clients::draw_generation(Op& op) {
  draw_terms(op);
  GenerateRequest request;
  op.tokens = request.tokens = draw_tokens();
  op.loops = random_.between(1, op.slot->sim().shape().max_iterations);
  if (random_.one_in(2)) op.loops = random_.between(1, 2);
  op.window = random_.one_in(4) ? random_.of({1, 5, 16, 17, 24}) : 0;
  request.config.loops = op.loops;
  request.config.cache_window = op.window;
  if (random_.one_in(3)) draw_handle(op, request);
  if (!op.handle && random_.one_in(3)) {
    op.pool = some_pool(*op.slot);
    if (op.pool) {
      request.pool = op.pool->pool;
      std::vector<const Slot*>& users = op.pool->users;
      if (std::find(users.begin(), users.end(), op.slot) == users.end()) users.push_back(op.slot);
      if (random_.one_in(2)) request.config.loops = op.loops = 2;  // where its prefixes are
    }
  }
  const int32_t room = op.slot->options.max_seq_len - int32_t(op.tokens.size());
  op.max_tokens = request.config.max_tokens = std::min(random_.between(1, kMostTokens), room);
  if (random_.one_in(5)) {
    op.choosing = {random_.of({0.0f, 0.2f, 0.7f, 2.0f}), random_.of({0, 0, 3}), random_.next(),
                   random_.of({0.0f, 0.5f, 2.0f})};
    request.config.temperature = op.choosing.temperature;
    request.config.top_k = op.choosing.top_k;
    request.config.seed = op.choosing.seed;
    request.config.frequency_penalty = op.choosing.frequency_penalty;
  }
  if (random_.one_in(5)) {
    op.stops = {{random_.between(0, kVocab - 1)}, {random_.between(0, 8), random_.between(0, 8)}};
    for (const auto& stop : op.stops) request.config.stop_sequences.emplace_back(stop);
  }
  if (random_.one_in(12)) request.config.logprobs = 2;
  request.when_full = op.when_full;
  request.config.deadline = op.deadline;
  request.config.priority = op.priority;
  if (random_.one_in(40)) break_bound(op, request);
  return request;
}

// What a prefix and a text to score have in common.
template <class Request>
Request Clients::draw_text(Op& op) {
  draw_terms(op);
  Request request;
  op.tokens = request.tokens = draw_tokens();
  op.loops = random_.between(1, 3);
  op.window = random_.one_in(5) ? random_.of({1, 5, 16, 17, 24}) : 0;
  request.loops = op.loops;
  request.cache_window = op.window;
  request.when_full = op.when_full;
  request.deadline = op.deadline;
  request.priority = op.priority;
  return request;
}

ScoreRequest Clients::draw_score(Op& op) {
  return draw_text<ScoreRequest>(op);
}

PrefixRequest Clients::draw_prefix(Op& op) {
  PrefixRequest request = draw_text<PrefixRequest>(op);
  if (random_.one_in(60)) {
    op.breaks_bound = true;
    request.loops = 99;
  }
  return request;
}

}  // namespace tinyloop::sim
