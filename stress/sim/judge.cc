#include "stress/sim/judge.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "stress/sim/scheduler.h"
#include "stress/sim/violation.h"

namespace tinyloop::sim {

namespace {

// Positions in whole pages.
size_t places(size_t positions) {
  return (positions + 15) / 16;
}

size_t max_positions(const Op& op) {
  switch (op.kind) {
    case OpKind::generate:
    case OpKind::chunks:
    case OpKind::stream:
      return op.tokens.size() + size_t(op.max_tokens) - 1;
    case OpKind::score:
      return op.tokens.size() - 1;
    default:
      return op.tokens.size();
  }
}

// No request of this kind takes more of the K/V budget, its prefix included.
size_t most_bytes(const Op& op) {
  const int32_t depth =
      std::max({op.loops, op.base_loops, op.max_loops, op.handle ? op.handle->max_loops : 1});
  return (places(max_positions(op)) + places(op.tokens.size()) + 2) * 2 *
         op.slot->place_bytes(depth);
}

// Exactly what it takes: of a request that nothing is kept of and that keeps nothing.
bool takes_exactly(const Op& op) {
  return !op.handle && !op.pool && op.window == 0 &&
         (is_generation(op.kind) || op.kind == OpKind::score);
}

bool could_ever_fit(const Op& op) {
  return most_needed(op) <= op.slot->options.cache_budget_bytes;
}

bool may_lack_memory(const Op& op) {
  const Slot& slot = *op.slot;
  if (slot.refused() > op.before.refused) return true;
  if (op.kind == OpKind::trim || op.kind == OpKind::prefix_info) return false;
  if (op.when_full == WhenFull::wait_for_requests || !could_ever_fit(op)) return true;
  // It, or one that it made room for, was not promised all it needs; then prefixes came to hold the
  // rest.
  if (slot.options.reserve_tokens < 256 && slot.keeps_prefixes) return true;
  if (op.when_full == WhenFull::wait && (op.handle || op.pool)) return true;  // stands in the way
  if (!is_build(op.kind)) return false;
  return slot.options.handle_budget_bytes > 0 || (op.pool && op.pool->options.capacity_bytes > 0);
}

// Whether a prefix of another depth may be in the pool.
bool pool_has_other_depths(const Op& op) {
  if (!op.pool || op.pool->options.automatic) return false;
  return std::any_of(op.pool->depths.begin(), op.pool->depths.end(),
                     [&](int32_t depth) { return depth != op.loops; });
}

bool pool_may_be_anothers(const Op& op) {
  return op.pool && std::any_of(op.pool->users.begin(), op.pool->users.end(),
                                [&](const Slot* user) { return user != op.slot; });
}

bool may_be_overloaded(const Op& op) {
  return op.when_full == WhenFull::fail || is_build(op.kind);
}

// Whether a replica that served when it was sent still does, whatever became of the others.
bool one_still_serves(const Op& op) {
  const uint64_t lost =
      op.slot->breaks() - op.before.breaks + op.slot->maintained() - op.before.maintained;
  return op.before.fit > lost;
}

// Draining, a model ends what it has accepted, and so does a replica: a request that was sent
// before, and does not wait for budget or a prefix, must not hear of it. Nor one that was sent
// while another replica served.
bool may_hear_of_shutdown(const Op& op, const Circumstances& at) {
  const Slot& slot = *op.slot;
  if (at.engine_cancels || slot.cancels) return true;
  const bool waits = op.when_full != WhenFull::fail;
  const bool maintained =
      op.before.fit < slot.copies.size() || slot.maintained() > op.before.maintained;
  if (maintained && (!is_request(op.kind) || waits || !one_still_serves(op))) {
    return true;
  }
  return (at.engine_closed || slot.drains) && (op.before.closing || waits || op.pool);
}

bool may_meet_failure(const Op& op) {
  const Slot& slot = *op.slot;
  if (op.before.doubtful || slot.breaks() > op.before.breaks) return true;
  if (slot.reloads() > op.before.reloads) return true;  // it may fail
  return op.before.failed && (!is_request(op.kind) || !one_still_serves(op));
}

bool may_lose_handle(const Op& op) {
  const Before& built = op.handle->before;
  return op.handle->released || built.fit < op.handle->slot->copies.size() ||
         op.slot->breaks() > built.breaks || op.slot->maintained() > built.maintained;
}

bool is_explained(const Op& op, errc condition, const Circumstances& at) {
  switch (condition) {
    case errc::invalid_argument:
      return op.breaks_bound;
    case errc::out_of_memory:
      return may_lack_memory(op);
    case errc::overloaded:
      return is_request(op.kind) && may_be_overloaded(op);
    case errc::deadline_exceeded:
      return op.deadline && *op.deadline <= at.now;
    case errc::operation_aborted:
      return op.cancelled || (is_build(op.kind) && (op.slot->cancels || at.engine_cancels));
    case errc::shutdown:
      return may_hear_of_shutdown(op, at);
    case errc::model_closed:
      return op.slot->closing() && !op.slot->all_alive();
    case errc::replica_failed:
      return may_meet_failure(op);
    case errc::internal:
      return op.slot->spoiled() > 0 && (is_generation(op.kind) || op.kind == OpKind::score);
    case errc::wrong_model:
      return op.foreign || pool_may_be_anothers(op);
    case errc::handle_lost:
      return op.handle && may_lose_handle(op);
    case errc::loop_mismatch:
      return op.mismatched || pool_has_other_depths(op);
    default:
      return false;
  }
}

// The last moment at which the replica did something for it.
TimePoint last_event(const Op& op, const Timings& timings) {
  const double us = timings.queue_us + timings.prefill_us + timings.decode_us;
  return op.submitted + std::chrono::microseconds(std::llround(us));
}

// Ends take effect before the step of the first turn that begins later: nothing comes of that turn.
// Which replica has served it, nobody knows: it must be so for one of them.
void judge_moment(const Op& op, TimePoint last) {
  constexpr auto kSlack = std::chrono::microseconds(2);
  bool cancel_held = !op.cancelled, deadline_held = !op.deadline;
  for (size_t i = 0; i < op.slot->copies.size(); ++i) {
    if (!op.slot->copies[i].loop) continue;
    const std::vector<TimePoint>& turns = op.slot->copies[i].loop->starts;
    if (op.cancelled) {
      const size_t next = op.cancel_turns[i];
      cancel_held |= next >= turns.size() || last <= turns[next] + kSlack;
    }
    if (op.deadline) {
      const auto late = std::lower_bound(turns.begin(), turns.end(), *op.deadline);
      deadline_held |= late == turns.end() || last <= *late + kSlack;
    }
  }
  if (!cancel_held) fail(op, "computed something in a turn that began after its cancel");
  if (!deadline_held) fail(op, "computed something in a turn that began after its deadline");
}

// Nobody who was sent once another one had been taken, begins before it. Of several replicas each
// has an order of its own.
void judge_order(const Op& op, const Timings& timings) {
  if (op.slot->copies.size() > 1) return;
  const Begin mine{op.id, op.submitted,
                   op.submitted + std::chrono::microseconds(std::llround(timings.queue_us)),
                   op.handle || op.pool, op.priority};
  const std::vector<TimePoint>& turns = op.slot->copies.front().loop->starts;
  const auto overtakes = [&](const Begin& late, const Begin& early) {
    // It had been taken when the second turn after it was sent began.
    auto taken = std::upper_bound(turns.begin(), turns.end(), early.submitted);
    if (taken == turns.end() || ++taken == turns.end()) return false;
    return !late.holds && late.priority <= early.priority && late.submitted > *taken &&
           late.begun < early.begun;
  };
  if (is_verbose()) {
    const auto us = [](TimePoint t) { return std::to_string(t.time_since_epoch().count() / 1000); };
    trace("#" + std::to_string(op.id) + " was sent at " + us(mine.submitted) + " us, began at " +
          us(mine.begun));
  }
  for (const Begin& other : op.slot->begins) {
    if (overtakes(mine, other) || (!op.pool && overtakes(other, mine))) {
      fail(op, "this and #" + std::to_string(other.op) +
                   ": one began before the other, which the replica had taken earlier");
    }
  }
  if (!op.pool) op.slot->begins.push_back(mine);
}

bool ends_with(std::span<const int32_t> tokens, const std::vector<int32_t>& end) {
  return tokens.size() >= end.size() &&
         std::equal(end.begin(), end.end(), tokens.end() - ptrdiff_t(end.size()));
}

bool is_stopped(const Op& op, std::span<const int32_t> tokens) {
  return std::any_of(op.stops.begin(), op.stops.end(),
                     [&](const auto& stop) { return ends_with(tokens, stop); });
}

int32_t depth_of(const Op& op, size_t position) {
  return position < size_t(op.base_positions) ? op.base_loops : op.loops;
}

}  // namespace

const char* name_of(errc condition) {
  static const char* const names[] = {
      "ok",          "invalid_argument", "io_error",     "bad_model_file",
      "unsupported", "out_of_memory",    "overloaded",   "deadline_exceeded",
      "aborted",     "shutdown",         "model_closed", "replica_failed",
      "stream_busy", "end_of_stream",    "internal",     "wrong_model",
      "handle_lost", "loop_mismatch"};
  return names[size_t(condition)];
}

size_t most_needed(const Op& op) {
  if (!takes_exactly(op)) return most_bytes(op);
  return places(max_positions(op)) * op.slot->place_bytes(op.loops);
}

void fail(const Op& op, const std::string& what) {
  violation(std::string(to_string(op.kind)) + " #" + std::to_string(op.id) + ": " + what);
}

bool is_crowded_out(const error_code& error) {
  return error == errc::overloaded &&
         error.message().find("administrative messages") != std::string::npos;
}

void judge_error(const Op& op, const error_code& error, const Circumstances& at) {
  if (op.completions > 1) fail(op, "completed twice");
  const errc condition = errc_of(error);
  if (condition != errc::ok && !is_explained(op, condition, at) && !is_crowded_out(error)) {
    fail(op, "ended without a reason with " + error.message());
  }
  if (condition != errc::ok) return;
  if (op.breaks_bound) fail(op, "breaks a bound, and was not refused");
  if (op.foreign) fail(op, "used another model's handle");
  if (op.mismatched) fail(op, "used a prefix at another depth");
  if (op.before.released) fail(op, "used a handle that had been released");
  const bool could_recover = op.slot->reloads() > op.before.reloads;
  if (op.before.all_failed && !could_recover && is_request(op.kind)) {
    fail(op, "a replica that had failed served it");
  }
  if (op.before.none_serves && op.slot->reloads() == 0 && is_request(op.kind)) {
    fail(op, "a replica served it that had been drained");
  }
}

void judge_tokens(const Op& op, std::span<const int32_t> tokens) {
  if (tokens.size() > size_t(op.max_tokens)) fail(op, "more tokens than it asked for");
  Reference::Text text(reference(op.slot->file), op.window);
  for (size_t i = 0; i < op.tokens.size(); ++i) text.push(op.tokens[i], depth_of(op, i));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t expected = text.next_token(op.choosing, op.tokens.size());
    if (tokens[i] != expected) {
      fail(op, "token " + std::to_string(i) + " is " + std::to_string(tokens[i]) + ", expected " +
                   std::to_string(expected));
    }
    if (i + 1 < tokens.size() && is_stopped(op, tokens.first(i + 1))) {
      fail(op, "went on behind a stop sequence");
    }
    text.push(tokens[i], op.loops);
  }
}

void judge_end(const Op& op, std::span<const int32_t> tokens, FinishReason reason, int32_t loops,
               const Timings& timings, const Circumstances& at) {
  judge_tokens(op, tokens);
  if (loops != op.loops) fail(op, "tells another depth than it was asked for");
  if (!tokens.empty()) {
    judge_moment(op, last_event(op, timings));
    judge_order(op, timings);
  }
  const bool all = tokens.size() == size_t(op.max_tokens);
  switch (reason) {
    case FinishReason::stop_sequence:
      if (!is_stopped(op, tokens)) fail(op, "stopped without a stop sequence");
      return;
    case FinishReason::max_tokens:
      if (!all) fail(op, "is short of tokens");
      if (is_stopped(op, tokens)) fail(op, "has not seen its stop sequence");
      return;
    case FinishReason::cancelled:
      if (op.cancelled || op.slot->cancels || at.engine_cancels) return;
      fail(op, "is cancelled, and nobody has cancelled it");
    case FinishReason::deadline:
      if (op.deadline && *op.deadline <= at.now) return;
      fail(op, "ended before its deadline");
    case FinishReason::eos:
      fail(op, "met an end-of-sequence token, of which the file has none");
    case FinishReason::all_masked:
      fail(op, "found no token that may follow, and nobody has masked any");
  }
}

void judge_scores(const Op& op, const ScoreResult& result, const Circumstances& at) {
  const size_t wanted = op.tokens.size() - 1;
  if (result.logprobs.size() > wanted) fail(op, "more scores than tokens");
  if (result.loops != op.loops) fail(op, "tells another depth than it was asked for");
  Reference::Text text(reference(op.slot->file), op.window);
  for (size_t i = 0; i < result.logprobs.size(); ++i) {
    text.push(op.tokens[i], op.loops);
    const float expected = text.logprob(op.tokens[i + 1]);
    if (std::abs(result.logprobs[i] - expected) > 1e-4f) {
      fail(op, "score " + std::to_string(i) + " is " + std::to_string(result.logprobs[i]) +
                   ", expected " + std::to_string(expected));
    }
  }
  const FinishReason reason = result.finish_reason;
  if (wanted > 0 && reason == FinishReason::max_tokens) {
    judge_moment(op, last_event(op, result.timings));
    judge_order(op, result.timings);
  }
  const bool whole = reason == FinishReason::max_tokens && result.logprobs.size() == wanted;
  const bool cut = (reason == FinishReason::cancelled &&
                    (op.cancelled || op.slot->cancels || at.engine_cancels)) ||
                   (reason == FinishReason::deadline && op.deadline && *op.deadline <= at.now);
  if (!whole && !cut) fail(op, "ended in a way that nobody has asked for");
}

void judge_trace(const Op& op, const Trace& trace) {
  if (trace.events.size() > size_t(op.slot->options.trace_events)) fail(op, "too many events");
  std::set<uint64_t> ended;
  int64_t last = 0;
  for (const TraceEvent& event : trace.events) {
    const bool late = event.kind != TraceKind::chunk && event.end_us < last;
    if (event.begin_us > event.end_us || late) fail(op, "events out of order");
    last = std::max(last, event.end_us);
    if (event.request == 0) continue;
    if (ended.contains(event.request)) fail(op, "a request has ended, and goes on");
    if (event.kind == TraceKind::end) ended.insert(event.request);
  }
}

void judge_handle(const Op& op, const ReuseHandle& handle) {
  const PrefixInfo info = handle.info();
  const testing::ModelShape& shape = op.slot->sim().shape();
  const size_t layer = op.slot->device().layer_bytes;
  const bool resumes = op.kind != OpKind::build_prefix;
  const auto behind =
      size_t(op.window == 0 ? 0 : std::max(0, int32_t(op.tokens.size()) - op.window + 1) / 16);
  const auto layers = size_t(shape.prelude + (resumes ? 0 : shape.coda) + shape.shared * op.loops);
  const size_t rows = resumes ? op.tokens.size() * (op.slot->sim().injects() ? 2 : 1) : 1;
  const size_t deeper = resumes ? size_t(shape.coda + shape.shared * (op.max_loops - op.loops)) : 0;
  if (!std::ranges::equal(handle.tokens(), op.tokens) || info.loops != op.loops ||
      info.positions != int32_t(op.tokens.size()) || info.cache_window != op.window ||
      info.page_bytes != (places(op.tokens.size()) - behind) * layers * layer ||
      info.snapshot_bytes != rows * kWidth * sizeof(float) ||
      info.reserved_bytes != places(op.tokens.size()) * deeper * layer) {
    fail(op, "the handle is not what docs/reuse.md says");
  }
}

}  // namespace tinyloop::sim
