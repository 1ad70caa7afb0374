// Requests: drawn, sent, answered.
#include <algorithm>
#include <stdexcept>

#include "stress/sim/clients.h"

namespace tinyloop::sim {

namespace {

constexpr int32_t kMostPrompt = 40;
constexpr int32_t kMostTokens = 20;

}  // namespace

Op* Clients::new_op(OpKind kind, Slot& slot) {
  ops_.push_back(std::make_unique<Op>());
  Op& op = *ops_.back();
  op.id = ++made_;
  op.kind = kind;
  op.slot = &slot;
  op.on_strand = random_.one_in(6);
  return &op;
}

void Clients::begin_call(Op& op) {
  op.submitted = scheduler_.clock().peek();
  op.refused_before = op.slot->device.refused;
  op.closing_before = op.slot->closing() || engine_closed_;
  op.failed_before = op.slot->device.broken &&
                     op.slot->model.health().replicas.at(0).state == ReplicaState::failed;
  op.released_before = op.handle && op.handle->released;
  if (is_request(op.kind)) ++op.slot->requests;
  op.slot->keeps_prefixes |= is_build(op.kind) || op.pool;
  trace_op(op, "sent, " + std::to_string(op.tokens.size()) + " tokens + " +
                   std::to_string(op.max_tokens) + ", loops " + std::to_string(op.loops) +
                   ", window " + std::to_string(op.window) +
                   (op.handle ? ", handle " + std::to_string(op.handle->id) : "") +
                   (op.pool ? ", pool " + std::to_string(op.pool->id) : ""));
}

void Clients::end_call(Op& op) {
  op.submitted = scheduler_.clock().peek();
  op.closing_before |= op.slot->closing() || engine_closed_;
  op.initiated = true;
}

// ---- What they ask for --------------------------------------------------------------------------

// A story's beginning, and perhaps something of its own.
std::vector<int32_t> Clients::draw_tokens(int32_t least, int32_t most) {
  const std::vector<int32_t>& story = random_.of(stories_);
  const int32_t length =
      random_.one_in(3) ? 16 * random_.between(1, 2) : random_.between(least, most);
  std::vector<int32_t> tokens(story.begin(), story.begin() + std::clamp(length, least, most));
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
  op.tokens = request.tokens = draw_tokens(1, kMostPrompt);
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
    op.choosing = {random_.of({0.2f, 0.7f, 2.0f}), random_.of({0, 0, 3}), random_.next()};
    request.config.temperature = op.choosing.temperature;
    request.config.top_k = op.choosing.top_k;
    request.config.seed = op.choosing.seed;
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

PrefixRequest Clients::draw_prefix(Op& op) {
  draw_terms(op);
  PrefixRequest request;
  op.tokens = request.tokens = draw_tokens(1, kMostPrompt);
  op.loops = random_.between(1, 3);
  op.window = random_.one_in(5) ? random_.of({1, 5, 16, 17, 24}) : 0;
  request.loops = op.loops;
  request.cache_window = op.window;
  request.when_full = op.when_full;
  request.deadline = op.deadline;
  request.priority = op.priority;
  if (random_.one_in(60)) {
    op.breaks_bound = true;
    request.loops = 99;
  }
  return request;
}

// ---- Sent and answered --------------------------------------------------------------------------

bool Clients::generate() {
  Slot* const slot = some_slot();
  if (!slot) return false;
  Op& op = *new_op(OpKind::generate, *slot);
  const GenerateRequest request = draw_generation(op);
  const Model model = slot->model;
  begin_call(op);
  model.async_generate(request, bound(op, [this, &op](error_code error, GenerateResult result) {
                         completed_generation(op, error, result);
                       }));
  end_call(op);
  return true;
}

bool Clients::generate_in_chunks() {
  Slot* const slot = some_slot();
  if (!slot) return false;
  Op& op = *new_op(OpKind::chunks, *slot);
  const GenerateRequest request = draw_generation(op);
  const Model model = slot->model;
  const size_t throws_at = random_.one_in(10) ? 1 + random_.below(4) : 0;
  begin_call(op);
  model.async_generate(
      request,
      [this, &op, throws_at, calls = size_t{0}](const StreamChunk& chunk) mutable {
        if (op.completions > 0) fail(op, "a chunk after the end");
        op.got.insert(op.got.end(), chunk.tokens.begin(), chunk.tokens.end());
        judge_tokens(op, op.got);
        if (++calls != throws_at) return;
        op.cancelled = true;  // that is what an exception means
        op.cancel_turn =
            SIZE_MAX;  // nobody knows: it is logged first, and others may run meanwhile
        // What is not shown any more is still in the result.
        throw std::runtime_error("a client's callback");
      },
      bound(op, [this, &op, throws_at](error_code error, GenerateResult result) {
        if (throws_at > 0 && op.cancelled && !error && op.got.size() < result.tokens.size()) {
          op.got.assign(result.tokens.begin() + ptrdiff_t(op.tokens.size()), result.tokens.end());
        }
        completed_generation(op, error, result);
      }));
  end_call(op);
  return true;
}

bool Clients::score() {
  Slot* const slot = some_slot();
  if (!slot) return false;
  Op& op = *new_op(OpKind::score, *slot);
  draw_terms(op);
  ScoreRequest request;
  op.tokens = request.tokens = draw_tokens(1, kMostPrompt);
  op.loops = random_.between(1, 3);
  op.window = random_.one_in(5) ? random_.of({1, 5, 16, 17, 24}) : 0;
  request.loops = op.loops;
  request.cache_window = op.window;
  request.when_full = op.when_full;
  request.deadline = op.deadline;
  request.priority = op.priority;
  const Model model = slot->model;
  begin_call(op);
  model.async_score(request, bound(op, [this, &op](error_code error, const ScoreResult& result) {
                      ++op.completions;
                      judge_error(op, error, now());
                      if (!error) judge_scores(op, result, now());
                      complete(op, error, to_string(result.finish_reason));
                    }));
  end_call(op);
  return true;
}

template <class Kind>
void Clients::completed_build(Op& op, const error_code& error, Kind handle) {
  ++op.completions;
  judge_error(op, error, now());
  complete(op, error, "built");
  if (error) {
    if (handle) fail(op, "failed, and gave a handle");
    return;
  }
  judge_handle(op, handle);
  auto record = std::make_shared<HandleRecord>();
  record->id = ++made_;
  record->slot = op.slot;
  record->tokens = op.tokens;
  record->loops = op.loops;
  record->max_loops = op.kind == OpKind::build_prefix ? op.loops : op.max_loops;
  record->window = op.window;
  if constexpr (std::is_same_v<Kind, PrefixCache>) {
    record->prefix = std::move(handle);
  } else {
    record->resume = std::move(handle);
  }
  handles_.push_back(std::move(record));
}

bool Clients::build_prefix() {
  Slot* const slot = some_slot();
  if (!slot) return false;
  Op& op = *new_op(OpKind::build_prefix, *slot);
  const PrefixRequest request = draw_prefix(op);
  const Model model = slot->model;
  begin_call(op);
  model.async_build_prefix(request, bound(op, [this, &op](error_code error, PrefixCache made) {
                             completed_build(op, error, std::move(made));
                           }));
  end_call(op);
  return true;
}

bool Clients::build_resume() {
  Slot* const slot = some_slot();
  if (!slot) return false;
  Op& op = *new_op(OpKind::build_resume, *slot);
  ResumeRequest request{.prefix = draw_prefix(op)};
  op.max_loops = request.max_loops = op.loops + random_.between(0, 3);
  const Model model = slot->model;
  begin_call(op);
  model.async_build_resume(request, bound(op, [this, &op](error_code error, ResumeHandle made) {
                             completed_build(op, error, std::move(made));
                           }));
  end_call(op);
  return true;
}

bool Clients::deepen() {
  const HandleRef handle = some_handle();
  if (!handle || !handle->resumes() || !handle->slot->model) return false;
  Op& op = *new_op(OpKind::deepen, *handle->slot);
  draw_terms(op);
  op.handle = handle;
  op.tokens = handle->tokens;
  op.window = handle->window;
  op.max_loops = handle->max_loops;
  op.loops = random_.between(handle->loops,
                             std::min(handle->max_loops, op.slot->sim().shape().max_iterations));
  const DeepenRequest request{.handle = handle->resume,
                              .loops = op.loops,
                              .deadline = op.deadline,
                              .when_full = op.when_full,
                              .priority = op.priority};
  const Model model = op.slot->model;
  begin_call(op);
  model.async_deepen(request, bound(op, [this, &op](error_code error, ResumeHandle made) {
                       completed_build(op, error, std::move(made));
                     }));
  end_call(op);
  return true;
}

bool Clients::register_prefix() {
  Slot* const slot = some_slot();
  const PoolRecordRef pool = slot ? some_pool(*slot) : nullptr;
  if (!pool) return false;
  Op& op = *new_op(OpKind::register_prefix, *slot);
  PrefixRequest request = draw_prefix(op);
  if (!op.breaks_bound && random_.one_in(2)) request.loops = op.loops = 2;
  op.pool = pool;
  if (std::find(pool->users.begin(), pool->users.end(), slot) == pool->users.end()) {
    pool->users.push_back(slot);
  }
  pool->depths.push_back(op.loops);
  const Model model = slot->model;
  begin_call(op);
  model.async_register_prefix(
      pool->pool, request, bound(op, [this, &op](error_code error, int32_t id) {
        ++op.completions;
        judge_error(op, error, now());
        if (error ? id != 0 : id < 1 || size_t(id) > op.pool->options.capacity) {
          fail(op, "gave the id " + std::to_string(id));
        }
        complete(op, error, "registered");
      }));
  end_call(op);
  return true;
}

bool Clients::prefix_info() {
  Slot* const slot = some_slot();
  const PoolRecordRef pool = slot ? some_pool(*slot) : nullptr;
  if (!pool) return false;
  Op& op = *new_op(OpKind::prefix_info, *slot);
  op.pool = pool;
  const Model model = slot->model;
  const int32_t id = random_.between(1, int32_t(pool->options.capacity) + 1);
  begin_call(op);
  model.async_prefix_info(
      pool->pool, id, bound(op, [this, &op](error_code error, PoolEntryInfo info) {
        ++op.completions;
        judge_error(op, error, now());
        const size_t bytes = (size_t(info.positions) + 15) / 16 * op.slot->place_bytes(info.loops);
        if (info.live && info.cache_window == 0 && info.bytes != bytes + kWidth * sizeof(float)) {
          fail(op, "the prefix has other bytes than docs/reuse.md says");
        }
        complete(op, error, info.live ? "live" : "not live");
      }));
  end_call(op);
  return true;
}

bool Clients::release() {
  const HandleRef handle = some_handle();
  Slot* const slot = some_slot();
  if (!slot || !handle || !handle->is_held()) return false;
  Op& op = *new_op(OpKind::release, *handle->slot);
  const Model model = slot->model;  // any will do
  handle->released = true;
  const ReuseHandle which =
      handle->resumes() ? ReuseHandle(handle->resume) : ReuseHandle(handle->prefix);
  op.initiated = true;
  trace_op(op, "sent, handle " + std::to_string(handle->id));
  model.async_release(which, bound(op, [this, &op](error_code error) {
                        ++op.completions;
                        if (error || op.completions > 1) fail(op, "a release cannot fail");
                        complete(op, error, "released");
                      }));
  return true;
}

bool Clients::trim() {
  Slot* const slot = some_slot();
  if (!slot) return false;
  Op& op = *new_op(OpKind::trim, *slot);
  const Model model = slot->model;
  begin_call(op);
  model.async_trim(bound(op, [this, &op](error_code error, size_t bytes) {
    ++op.completions;
    judge_error(op, error, now());
    complete(op, error, bytes > 0 ? "gave back" : "nothing");
  }));
  end_call(op);
  return true;
}

}  // namespace tinyloop::sim
