// Replicas that are drained and loaded again, and what they tell of themselves.
#include <utility>

#include "stress/sim/clients.h"

namespace tinyloop::sim {

// A model that is drained altogether has little more to show.
bool Clients::drain_replica() {
  Slot* const slot = some_slot();
  if (!slot || (slot->copies.size() == 1 && !random_.one_in(4))) return false;
  return maintain(*slot, OpKind::drain_replica);
}

bool Clients::reload_replica() {
  Slot* const slot = some_slot();
  return slot && maintain(*slot, OpKind::reload_replica);
}

bool Clients::maintain(Slot& slot, OpKind kind) {
  Op& op = *new_op(kind, slot);
  const size_t which = random_.below(slot.copies.size());
  Copy& copy = slot.copies[which];
  op.breaks_bound = random_.one_in(20);
  const size_t named = op.breaks_bound ? slot.copies.size() : which;
  const Model model = slot.model;
  begin_call(op);
  op.beside_maintenance = copy.maintaining > 0;
  if (!op.breaks_bound) {
    ++copy.maintaining;
    ++(kind == OpKind::drain_replica ? copy.drains : copy.reloads);
  }
  const uint32_t asked = copy.drains + copy.reloads;
  auto handler = bound(op, [this, &op, &copy, which, asked](error_code error) {
    ++op.completions;
    op.beside_maintenance |= copy.drains + copy.reloads > asked;
    if (!op.breaks_bound) --copy.maintaining;
    completed_maintenance(op, which, error);
  });
  if (kind == OpKind::drain_replica) {
    model.async_drain_replica(named, std::move(handler));
  } else {
    model.async_reload_replica(named, std::move(handler));
  }
  end_call(op);
  return true;
}

void Clients::completed_maintenance(Op& op, size_t which, const error_code& error) {
  if (op.completions > 1) fail(op, "completed twice");
  const Slot& slot = *op.slot;
  const bool lacked = slot.refused() > op.before.refused || slot.breaks() > op.before.breaks;
  bool explained = false;
  switch (errc_of(error)) {
    case errc::ok:
      explained = !op.breaks_bound;
      break;
    case errc::invalid_argument:
      explained = op.breaks_bound;
      break;
    case errc::overloaded:
      explained = op.beside_maintenance || is_crowded_out(error);
      break;
    case errc::shutdown:
    case errc::model_closed:
      explained = slot.closing() || engine_closed_;
      break;
    case errc::out_of_memory:
    case errc::replica_failed:
      explained = op.kind == OpKind::reload_replica && lacked;
      break;
    default:
      break;
  }
  if (!explained) fail(op, "ended without a reason with " + error.message());
  if (!error && op.kind == OpKind::drain_replica && !op.beside_maintenance) {
    if (!slot.copies[which].device.is_empty()) {
      fail(op, "is over, and the device has not everything back");
    }
    if (slot.model && !slot.closing() && !engine_closed_ &&
        slot.model.health().replicas[which].state != ReplicaState::drained) {
      fail(op, "is over, and the replica is not drained");
    }
  }
  complete(op, error, op.kind == OpKind::drain_replica ? "drained" : "loaded again");
}

bool Clients::ask_trace() {
  Slot* const slot = some_slot();
  if (!slot) return false;
  Op& op = *new_op(OpKind::trace, *slot);
  const Model model = slot->model;
  begin_call(op);
  model.async_trace(random_.below(slot->copies.size()),
                    bound(op, [this, &op](error_code error, const Trace& trace) {
                      ++op.completions;
                      const bool ends = op.slot->closing() || engine_closed_;
                      if (error && !is_crowded_out(error) &&
                          !(ends && (error == errc::shutdown || error == errc::model_closed))) {
                        fail(op, "ended without a reason with " + error.message());
                      }
                      if (!error) judge_trace(op, trace);
                      complete(op, error, trace.events.empty() ? "none" : "events");
                    }));
  end_call(op);
  return true;
}

}  // namespace tinyloop::sim
