// What clients do to requests, handles and pools that are there, and what happens to devices.
#include <algorithm>

#include "stress/sim/clients.h"
#include "stress/sim/host_memory.h"
#include "stress/sim/violation.h"

namespace tinyloop::sim {

void Clients::note_cancel(Op& op) {
  trace_op(op, "cancelled");
  if (op.cancelled) return;
  ++tally_.cancels;
  op.cancelled = true;
  if (!op.slot) return;
  for (const Copy& copy : op.slot->copies) op.cancel_turns.push_back(copy.turns());
}

bool Clients::cancel() {
  std::vector<Op*> found;
  for (const auto& op : ops_) {
    const bool late = op->ended && random_.one_in(20);
    if (op->initiated && op->kind != OpKind::stream && (!op->ended || late)) {
      found.push_back(op.get());
    }
  }
  if (found.empty()) return false;
  Op& op = *random_.of(found);
  if (!op.ended) note_cancel(op);
  op.signal.emit(boost::asio::cancellation_type::total);
  return true;
}

bool Clients::drop_handle() {
  if (handles_.empty()) return false;
  const size_t index = random_.below(handles_.size());
  const HandleRef handle = handles_[index];
  handles_.erase(handles_.begin() + ptrdiff_t(index));
  if (is_verbose()) trace("handle " + std::to_string(handle->id) + " dropped");
  handle->prefix = {};
  handle->resume = {};
  return true;
}

bool Clients::make_pool() {
  if (pools_.size() >= 3) return false;
  auto record = std::make_shared<PoolRecord>();
  record->id = ++made_;
  record->options.capacity = size_t(random_.between(1, 4));
  record->options.automatic = random_.one_in(2);
  if (random_.one_in(4)) {
    record->options.capacity_bytes = size_t(random_.between(8, 40)) << 20;
  }
  record->pool = PrefixPool(record->options);
  pools_.push_back(std::move(record));
  return true;
}

bool Clients::drop_pool() {
  if (pools_.empty()) return false;
  const size_t index = random_.below(pools_.size());
  const PoolRecordRef pool = pools_[index];
  pools_.erase(pools_.begin() + ptrdiff_t(index));
  if (is_verbose()) trace("pool " + std::to_string(pool->id) + " dropped");
  pool->pool = {};
  return true;
}

bool Clients::ask_reports() {
  Slot* const slot = some_slot();
  if (!slot) return false;
  const Model model = slot->model;
  const MemoryReport memory = model.memory();
  require(memory.cache_reserved <= memory.cache_budget, "more is reserved than the budget has");
  for (const Metrics& metrics : model.metrics()) {
    require(metrics.active <= size_t(slot->options.max_sequences), "too many sequences at once");
  }
  slot->preemptions = model.statistics().preemptions;
  check_health(*slot, model.health());
  return true;
}

bool Clients::arm_fault() {
  if (host_lacks_ && random_.one_in(2)) {
    HostMemory::refuse_in = 1 + random_.below(random_.of({3, 30, 300}));
    return true;
  }
  std::vector<Device*> alive;
  for (Slot& slot : slots_) {
    for (Copy& copy : slot.copies) {
      if (copy.device.alive) alive.push_back(&copy.device);
    }
  }
  if (alive.empty()) return false;
  Device& device = *random_.of(alive);
  switch (random_.below(8)) {
    case 0:
      device.break_in = 1 + random_.below(400);
      break;
    case 1:
      device.spoil_in = 1 + random_.below(20);
      break;
    case 2:
    case 3:
      device.full = !device.full;
      break;
    default:
      device.refuse_in = 1 + random_.below(12);
      break;
  }
  return true;
}

bool Clients::unload_some() {
  Slot* const slot = some_slot();
  if (!slot) return false;
  return unload(*slot, random_.of({ShutdownMode::drain, ShutdownMode::cancel}));
}

bool Clients::shutdown_some() {
  return shutdown(random_.of({ShutdownMode::drain, ShutdownMode::cancel}));
}

}  // namespace tinyloop::sim
