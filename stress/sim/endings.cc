// What holds when nothing moves, and how everything ends.
#include <algorithm>

#include "stress/sim/clients.h"
#include "stress/sim/violation.h"

namespace tinyloop::sim {

namespace {

bool is_outstanding(const Op& op) {
  return op.initiated && op.completions == 0 && !op.dropped;
}

// Whether a replica sleeps no longer than until its deadline.
bool will_wake(const Op& op) {
  return !op.deadline ||
         std::any_of(op.slot->copies.begin(), op.slot->copies.end(), [&](const Copy& copy) {
           return copy.loop && copy.loop->until && *copy.loop->until <= *op.deadline;
         });
}

// What becomes of a stream shows only to a reader.
bool shows(const Op& op) {
  return op.kind != OpKind::stream || op.reading;
}

}  // namespace

// A request that is outstanding while nothing moves waits for budget, and somebody holds it.
void Clients::check_waiting(const Slot& slot, const std::vector<const Op*>& waiting,
                            const std::vector<const Op*>& unread) const {
  if (waiting.empty()) return;
  const Op& first = *waiting.front();
  if (slot.closing()) fail(first, "never completes, though its model ends");
  if (slot.all_broken()) fail(first, "never completes, though its replica has failed");
  if (!slot.model) return;
  size_t free = SIZE_MAX;  // in the fullest replica: it may be there
  for (const Metrics& metrics : slot.model.metrics()) {
    free = std::min(free, metrics.memory.cache_budget - metrics.memory.cache_reserved);
  }
  bool one_could_not = false;
  for (const Op* op : waiting) {
    if (op->when_full != WhenFull::wait) fail(*op, "never completes, and did not ask to wait");
    if (!will_wake(*op)) fail(*op, "nobody will wake at its deadline");
    one_could_not |= most_needed(*op) > free;
  }
  for (const Op* op : unread) one_could_not |= most_needed(*op) > free;
  if (!one_could_not) fail(first, "waits for budget that is there");
  if (slot.copies.size() > 1) return;
  for (const PoolRecordRef& pool : pools_) {
    const auto& users = pool->users;
    if (users.size() == 1 && users[0] == &slot && pool->pool.statistics().entries > 0) {
      fail(first, "waits for budget that a pool could give");
    }
  }
}

void Clients::check_counts(const Slot& slot, size_t waiting, size_t unread) const {
  const Statistics s = slot.model.statistics();
  size_t queued = 0, active = 0;
  for (const HealthReport::Replica& replica : slot.model.health().replicas) {
    queued += replica.queued;
    active += replica.active;
  }
  const uint64_t completed =
      s.completed_ok + s.completed_cancelled + s.completed_deadline + s.completed_failed;
  require(s.accepted == completed + queued + active,
          "Statistics: accepted are not those that have completed, are queued or active");
  require(s.accepted + s.rejected == slot.requests,
          "Statistics: accepted and rejected are not all that have been sent");
  require(active == 0, "a sequence is active, and its replica sleeps");
  require(queued >= waiting && queued <= waiting + unread,
          "a request is queued that nobody waits for, or waits and is not queued");
  check_health(slot, slot.model.health());
}

// A replica fails with its device, or where it could not be loaded again.
void Clients::check_health(const Slot& slot, const HealthReport& health) const {
  for (size_t i = 0; i < slot.copies.size(); ++i) {
    const Copy& copy = slot.copies[i];
    require(health.replicas[i].state != ReplicaState::failed || copy.device.breaks > 0 ||
                copy.host_refused() > 0 || copy.reloads > 0,
            "a replica has failed whose device works");
  }
}

// What handles have reserved for resuming is theirs again when nobody resumes.
size_t Clients::reserved_by_handles(const Slot& slot) const {
  size_t bytes = 0;
  for (const HandleRef& handle : handles_) {
    if (handle->slot != &slot || handle->released || !handle->resumes()) continue;
    bytes += handle->resume.info().reserved_bytes;
  }
  return bytes;
}

void Clients::check_memory(const Slot& slot, bool held) const {
  const MemoryReport memory = slot.model.memory();
  if (slot.breaks() + slot.maintained() == 0 && !slot.closing()) {
    require(memory.cache_reserved >= memory.page_bytes_used + reserved_by_handles(slot),
            "a handle has lost what it reserved");
  }
  const std::vector<Metrics> metrics = slot.model.metrics();
  for (size_t i = 0; i < metrics.size(); ++i) {
    require(metrics[i].memory.total() == slot.copies[i].device.bytes,
            "MemoryReport: the sum is not what the device has handed out");
  }
  require(memory.cache_reserved <= memory.cache_budget, "more is reserved than the budget has");
  require(memory.page_bytes_used <= memory.cache_reserved, "pages that nobody has paid for");
  if (held) return;
  if (is_verbose()) {
    trace("model " + std::to_string(slot.index) +
          " at rest, nothing held: " + std::to_string(memory.pages_free) + " pages free, " +
          std::to_string(memory.arena) + " bytes of arena, " + std::to_string(memory.pages_used) +
          " pages used, " + std::to_string(memory.cache_reserved) + " bytes reserved, " +
          std::to_string(memory.handles) + " of snapshots");
  }
  require(memory.pages_used == 0, "pages are in use, and nobody has any");
  require(memory.cache_reserved == 0, "budget is reserved, and for nobody");
  require(memory.handles == 0, "snapshots are kept, and for nobody");
}

void Clients::check_at_rest() {
  ++tally_.rests;
  for (const Slot& slot : slots_) {
    std::vector<const Op*> waiting, unread;
    for (const auto& op : ops_) {
      if (op->slot != &slot || !is_outstanding(*op)) continue;
      if (is_request(op->kind)) {
        (shows(*op) ? waiting : unread).push_back(op.get());
      } else if (op->kind != OpKind::release) {
        fail(*op, "never completes");
      }
    }
    check_waiting(slot, waiting, unread);
    if (!slot.model) continue;
    check_counts(slot, waiting.size(), unread.size());
    const bool held =
        unread.size() + waiting.size() > 0 ||
        std::any_of(handles_.begin(), handles_.end(),
                    [&](const HandleRef& h) { return h->slot == &slot && !h->released; }) ||
        std::any_of(pools_.begin(), pools_.end(),
                    [](const PoolRecordRef& p) { return p->pool.statistics().entries > 0; });
    check_memory(slot, held);
    if (held) continue;
    for (const auto& op : ops_) {
      if (op->slot == &slot && is_outstanding(*op)) fail(*op, "never completes");
    }
  }
}

// Every pass moves every row that can run; each position of a request takes at most its depth and
// the wait for company, and each turn that is not such a pass takes something out of an inbox.
size_t Clients::most_turns() const {
  size_t turns = 1000;
  for (const auto& op : ops_) {
    if (op->ended || op->kind > OpKind::register_prefix) continue;
    const size_t positions = op->tokens.size() + size_t(op->max_tokens);
    turns += positions * size_t(std::max(op->loops, op->base_loops) + 8) + 4;
  }
  return turns;
}

bool Clients::drop_everything() {
  bool some = !handles_.empty() || !pools_.empty();
  for (const auto& op : ops_) {
    if (op->kind != OpKind::stream || op->dropped || !op->initiated) continue;
    drop(*op);
    some = true;
  }
  while (!handles_.empty()) drop_handle();
  while (!pools_.empty()) drop_pool();
  return some;
}

// Streams that have not been read to their end; false: there is none.
bool Clients::read_all() {
  bool some = false;
  for (size_t i = 0; i < ops_.size(); ++i) {
    Op& op = *ops_[i];
    if (op.kind != OpKind::stream || op.ended || op.dropped || op.reading) continue;
    read(op);
    some = true;
  }
  return some;
}

void Clients::check_all_ended() {
  for (const auto& op : ops_) {
    if (is_outstanding(*op)) fail(*op, "never completes, though everything has been dropped");
  }
}

void Clients::trim_all() {
  for (Slot& slot : slots_) {
    if (!slot.model || slot.closing()) continue;
    for (Copy& copy : slot.copies) copy.device.full = false;
    slot.model.async_trim(
        boost::asio::bind_executor(scheduler_.io().get_executor(), [](error_code, size_t) {}));
  }
}

void Clients::check_nothing_held() {
  for (const Slot& slot : slots_) {
    if (!slot.model || slot.closing() || slot.breaks() > 0) continue;
    const MemoryReport memory = slot.model.memory();
    require(memory.pages_used == 0 && memory.pages_free == 0 && memory.arena == 0,
            "pages are left after everything has been dropped and trimmed");
    require(memory.cache_reserved == 0, "budget is reserved after everything has been dropped");
  }
}

void Clients::unload_all() {
  for (Slot& slot : slots_) {
    if (slot.model) unload(slot, random_.of({ShutdownMode::drain, ShutdownMode::cancel}));
  }
}

void Clients::drop_engine() {
  for (Slot& slot : slots_) slot.model = {};
  engine_->finish();
  engine_.reset();
}

void Clients::check_over() {
  for (const auto& op : ops_) {
    if (op->initiated && op->reading) fail(*op, "an async_next never completes");
    if (op->kind == OpKind::stream && (op->dropped || !op->reading)) continue;
    if (op->completions != 1) fail(*op, "completed " + std::to_string(op->completions) + " times");
  }
  for (const Slot& slot : slots_) {
    require(slot.is_empty(), "a device has not everything back");
    for (const Copy& copy : slot.copies) {
      tally_.refused += copy.device.refused;
      tally_.broken += copy.device.breaks;
      tally_.spoiled += copy.device.spoiled;
      tally_.slow += copy.device.slow;
      tally_.passes += copy.device.passes;
      tally_.host_refused += copy.host_refused();
    }
    tally_.several += slot.copies.size() > 1;
    tally_.preemptions += slot.preemptions;
  }
  for (const auto& record : scheduler_.loops()) {
    require(!record->loop, "one of the engine's loops has not ended");
  }
}

}  // namespace tinyloop::sim
