// Loading, unloading, and the end of the engine.
#include <utility>

#include "stress/sim/clients.h"
#include "stress/sim/violation.h"

namespace tinyloop::sim {

namespace {

constexpr size_t kMostSlots = 3;

// As Clients::copy_of reads it.
std::string device_name(size_t slot, size_t copy) {
  return "sim:" + std::to_string(slot) + ":" + std::to_string(copy);
}

// Tight everywhere: few places, few pages, short queues.
void draw_options(Random& random, Slot& slot) {
  slot.file = random.below(sim_models().size());
  Device device;
  device.layer_bytes = size_t{1} << random.between(18, 21);
  device.runs_ahead = random.one_in(3);
  device.slow_one_in = random.one_in(3) ? size_t(random.between(5, 50)) : 0;
  const size_t copies = random.of({1, 1, 1, 2, 3});
  slot.copies.resize(copies);
  for (Copy& copy : slot.copies) copy.device = device;
  ModelOptions& options = slot.options;
  options.device.clear();
  for (size_t i = 0; i < copies; ++i) {
    options.device += (i > 0 ? "," : "") + device_name(slot.index, i);
  }
  options.trace_events = random.of({0, 0, 7, 100});
  options.max_seq_len = 64;
  options.prefill_chunk = random.of({0, 0, 3, 7, 16});
  options.prefill_budget = random.of({1, 5, 8, 24, 64});
  options.reserve_tokens = random.of({1, 1, 2, 5, 256});
  options.max_sequences = random.between(1, 5);
  options.max_queued = random.of({1, 2, 4, 8, 32});
  options.schedule = random.of({Schedule::throughput, Schedule::latency, Schedule::fixed});
  options.hold_passes = random.of({0, 1, 3, 7});
  options.cache_budget_bytes = slot.place_bytes(3) * size_t(random.between(2, 14));
  options.max_handles = random.of({1, 2, 4, 16, 16});
  if (random.one_in(4)) options.handle_budget_bytes = options.cache_budget_bytes / 2;
  if (random.one_in(5)) {
    const size_t capacity = options.cache_budget_bytes / 100 * size_t(random.between(30, 120));
    for (Copy& copy : slot.copies) copy.device.capacity = capacity;
  }
}

}  // namespace

bool Clients::load() {
  if (slots_.size() >= kMostSlots) return false;
  Slot& slot = slots_.emplace_back();
  slot.index = slots_.size() - 1;
  draw_options(random_, slot);
  Op& op = *new_op(OpKind::load, slot);
  std::string path = slot.sim().file.path();
  Device& one = random_.of(slot.copies).device;
  bool may_fail = one.capacity > 0 || host_lacks_;
  if (random_.one_in(12)) one.refuse_in = 1 + random_.below(60), may_fail = true;
  if (random_.one_in(40)) one.break_in = 1 + random_.below(30), may_fail = true;
  if (random_.one_in(40)) path += ".none", op.breaks_bound = true;
  if (random_.one_in(40)) slot.options.max_sequences = 0, op.breaks_bound = true;
  op.before.closing = engine_closed_;
  trace_op(op, "sent: " + std::to_string(slot.options.cache_budget_bytes) + " bytes, " +
                   std::to_string(slot.options.max_sequences) + " sequences");
  auto handler = bound(op, [this, &op, may_fail](error_code error, Model model) {
    ++op.completions;
    Slot& loaded = *op.slot;
    loaded.load_over = true;
    const errc condition = errc_of(error);
    const bool explained =
        condition == errc::ok                  ? !op.breaks_bound
        : condition == errc::operation_aborted ? op.cancelled
        : condition == errc::shutdown          ? engine_closed_
        : condition == errc::io_error || condition == errc::invalid_argument
            ? op.breaks_bound
            : may_fail && (condition == errc::out_of_memory || condition == errc::replica_failed);
    if (!explained) fail(op, "ended without a reason with " + error.message());
    if (error && !loaded.is_empty()) {
      fail(op, "failed, and left memory behind");
    }
    loaded.loaded = !error;
    loaded.model = std::move(model);
    complete(op, error, "loaded");
  });
  const boost::asio::any_io_executor executor = engine_->executor();
  detail::load(engine_, path, slot.options,
               detail::Completion<Model>(std::move(handler), executor));
  op.initiated = true;
  return true;
}

bool Clients::unload(Slot& slot, ShutdownMode mode) {
  if (!slot.model) return false;
  Op& op = *new_op(OpKind::unload, slot);
  const Model model = slot.model;
  (mode == ShutdownMode::drain ? slot.drains : slot.cancels) = true;
  trace_op(op, mode == ShutdownMode::drain ? "sent, drain" : "sent, cancel");
  model.async_unload(mode, bound(op, [this, &op](error_code error) {
                       ++op.completions;
                       if (error) fail(op, "an unload cannot fail");
                       if (!op.slot->is_empty()) {
                         fail(op, "is over, and the device has not everything back");
                       }
                       op.slot->closed = true;
                       complete(op, error, "unloaded");
                     }));
  op.initiated = true;
  return true;
}

bool Clients::shutdown(ShutdownMode mode) {
  if (!engine_) return false;
  Op& op = *new_op(OpKind::shutdown, slots_.empty() ? slots_.emplace_back() : slots_.front());
  engine_closed_ = true;
  engine_cancels_ |= mode == ShutdownMode::cancel;
  for (Slot& slot : slots_) (mode == ShutdownMode::drain ? slot.drains : slot.cancels) = true;
  trace_op(op, mode == ShutdownMode::drain ? "sent, drain" : "sent, cancel");
  auto handler = bound(op, [this, &op](error_code error) {
    ++op.completions;
    if (error) fail(op, "a shutdown cannot fail");
    for (const Slot& slot : slots_) {
      if (!slot.is_empty()) {
        fail(op, "is over, and a device has not everything back");
      }
    }
    complete(op, error, "shut down");
  });
  const boost::asio::any_io_executor executor = engine_->executor();
  detail::shutdown(engine_, mode, detail::Completion<>(std::move(handler), executor));
  op.initiated = true;
  return true;
}

bool Clients::drop_model() {
  Slot* const slot = some_slot();
  if (!slot) return false;
  if (is_verbose()) trace("model " + std::to_string(slot->index) + " dropped");
  slot->model = {};
  return true;
}

void Clients::close_engine() {
  engine_closed_ = engine_cancels_ = true;
  for (Slot& slot : slots_) slot.cancels = true;
  engine_->close(ShutdownMode::cancel);
}

}  // namespace tinyloop::sim
