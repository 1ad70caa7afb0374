// Requests: sent and answered.
#include <algorithm>
#include <stdexcept>

#include "stress/sim/clients.h"

namespace tinyloop::sim {

namespace {

// Of a prefix in the pool: no two replicas have the same.
size_t most_id(const Op& op) {
  return op.pool->options.capacity * op.slot->copies.size();
}

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

Before Clients::look(const Slot& slot) const {
  Before before{.refused = slot.refused(),
                .breaks = slot.breaks(),
                .maintained = slot.maintained(),
                .reloads = slot.reloads(),
                .none_serves = true,
                .all_failed = true,
                .closing = slot.closing() || engine_closed_};
  const HealthReport health = slot.model.health();
  for (size_t i = 0; i < slot.copies.size(); ++i) {
    const Copy& copy = slot.copies[i];
    const ReplicaState state = health.replicas[i].state;
    const bool failed = state == ReplicaState::failed;
    before.fit += state == ReplicaState::serving && !copy.is_doubtful();
    before.none_serves &= state == ReplicaState::draining || state == ReplicaState::drained;
    before.doubtful |= copy.is_doubtful() && (!failed || copy.maintaining > 0);
    before.failed |= failed;
    before.all_failed &= failed && copy.maintaining == 0;
  }
  return before;
}

void Clients::begin_call(Op& op) {
  op.submitted = scheduler_.clock().peek();
  op.before = look(*op.slot);
  op.before.released = op.handle && op.handle->released;
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
  op.before.closing |= op.slot->closing() || engine_closed_;
  op.initiated = true;
}

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
        // When, nobody knows: it is logged first, and others may run meanwhile.
        op.cancel_turns.assign(op.slot->copies.size(), SIZE_MAX);
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
  const ScoreRequest request = draw_score(op);
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
  record->before = op.before;
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
  model.async_register_prefix(pool->pool, request,
                              bound(op, [this, &op](error_code error, int32_t id) {
                                ++op.completions;
                                judge_error(op, error, now());
                                if (error ? id != 0 : id < 1 || size_t(id) > most_id(op)) {
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
  const int32_t id = random_.between(1, int32_t(most_id(op)) + 1);
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
