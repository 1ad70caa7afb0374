#include "stress/sim/clients.h"

#include <algorithm>

#include "stress/sim/fake_backend.h"
#include "stress/sim/host_memory.h"
#include "stress/sim/violation.h"

namespace tinyloop::sim {

namespace {

const char* const kOpNames[kOpKinds] = {
    "generate",       "chunks",   "stream",      "score",   "build_prefix", "build_resume",
    "deepen",         "register", "prefix_info", "release", "trim",         "drain_replica",
    "reload_replica", "trace",    "load",        "unload",  "shutdown"};

// In one simulation: interruptions within interruptions could send any number.
constexpr size_t kMostOps = 400;

}  // namespace

const char* to_string(OpKind kind) {
  return kOpNames[size_t(kind)];
}

Clients::Clients(Scheduler& scheduler, Tally& tally)
    : scheduler_(scheduler), tally_(tally), random_(scheduler.random()) {
  EngineOptions options;
  options.executor = scheduler.io().get_executor();
  options.log = [this](LogLevel, std::string_view text) {
    const Allocating ours(nullptr);
    if (is_verbose()) trace("log: " + std::string(text));
    scheduler_.point();
  };
  actors::Platform platform;
  platform.clock = &scheduler.clock();
  platform.take_loop = [this](const std::string& name, std::shared_ptr<actors::Loop> loop) {
    scheduler_.take(name, std::move(loop));
  };
  platform.make_backend =
      [this](const ModelOptions& wanted) -> base::Result<std::unique_ptr<kernels::Backend>> {
    const Allocating ours(nullptr);
    Copy& copy = copy_of(wanted.device);
    copy.loop = scheduler_.current();
    copy.device.broken = false;  // another one in its place
    return std::make_unique<FakeBackend>(copy.device, scheduler_, wanted.device);
  };
  engine_ = std::make_shared<actors::EngineState>(std::move(options), std::move(platform));
  for (int32_t i = random_.between(1, 3); i > 0; --i) {
    stories_.emplace_back();
    for (int32_t t = 0; t < 48; ++t) stories_.back().push_back(random_.between(0, kVocab - 1));
  }
  HostMemory::refuse_in = 0;
  host_lacks_ = random_.one_in(6) && kHostMemoryRefuses;
  // Each seed likes some actions more than others, and some not at all.
  for (size_t i = 0; i < actions().size(); ++i) {
    weights_[i] = actions()[i].weight * random_.of({0, 1, 1, 2, 3});
    if (actions()[i].weight == 1 && random_.one_in(2)) weights_[i] = 0;  // much ends with these
    total_weight_ += weights_[i];
  }
  weights_[0] += 1;
  total_weight_ += 1;
}

const std::vector<Clients::Action>& Clients::actions() {
  static const std::vector<Action> all = {
      {"generate", &Clients::generate, 30, true},
      {"chunks", &Clients::generate_in_chunks, 12, true},
      {"stream", &Clients::open_stream, 14, true},
      {"score", &Clients::score, 10, true},
      {"build_prefix", &Clients::build_prefix, 10, true},
      {"build_resume", &Clients::build_resume, 10, true},
      {"deepen", &Clients::deepen, 12, true},
      {"register", &Clients::register_prefix, 14, true},
      {"load", &Clients::load, 3, true},
      {"make_pool", &Clients::make_pool, 8, true},
      {"arm_fault", &Clients::arm_fault, 3, true},
      {"unload", &Clients::unload_some, 1, true},
      {"shutdown", &Clients::shutdown_some, 1, true},
      {"drop_model", &Clients::drop_model, 1, true},
      {"read_stream", &Clients::read_stream, 30, false},
      {"cancel_read", &Clients::cancel_read, 4, false},
      {"cancel_stream", &Clients::cancel_stream, 3, false},
      {"drop_stream", &Clients::drop_stream, 3, false},
      {"cancel", &Clients::cancel, 12, false},
      {"release", &Clients::release, 5, false},
      {"drop_handle", &Clients::drop_handle, 6, false},
      {"drop_pool", &Clients::drop_pool, 2, false},
      {"prefix_info", &Clients::prefix_info, 4, false},
      {"trim", &Clients::trim, 4, false},
      {"drain_replica", &Clients::drain_replica, 1, true},
      {"reload_replica", &Clients::reload_replica, 5, true},
      {"trace", &Clients::ask_trace, 2, false},
      {"reports", &Clients::ask_reports, 4, false},
  };
  return all;
}

bool Clients::act() {
  size_t drawn = random_.below(total_weight_);
  for (size_t i = 0; i < actions().size(); ++i) {
    if (drawn < weights_[i]) return act(actions()[i]);
    drawn -= weights_[i];
  }
  return false;
}

bool Clients::act(const Action& action) {
  if (action.sends && (!sending_ || ops_.size() >= kMostOps)) return false;
  return (this->*action.run)();
}

Slot* Clients::some_slot() {
  std::vector<Slot*> usable;
  for (Slot& slot : slots_) {
    if (slot.model) usable.push_back(&slot);
  }
  return usable.empty() ? nullptr : random_.of(usable);
}

// "sim:SLOT:REPLICA"
Copy& Clients::copy_of(const std::string& device) {
  const size_t colon = device.find(':', 4);
  Slot& slot = slots_.at(std::stoul(device.substr(4, colon - 4)));
  return slot.copies.at(std::stoul(device.substr(colon + 1)));
}

HandleRef Clients::some_handle() {
  return handles_.empty() ? nullptr : random_.of(handles_);
}

PoolRecordRef Clients::some_pool(const Slot& slot) {
  if (pools_.empty()) return nullptr;
  const PoolRecordRef& pool = random_.of(pools_);
  const bool fits = pool->users.empty() || pool->users.front() == &slot;
  return fits || random_.one_in(20) ? pool : nullptr;
}

Circumstances Clients::now() const {
  return {scheduler_.clock().peek(), engine_closed_, engine_cancels_};
}

void Clients::trace_op(const Op& op, const std::string& what) const {
  if (!is_verbose()) return;
  trace(std::string(to_string(op.kind)) + " #" + std::to_string(op.id) + " of " +
        (op.slot ? "model " + std::to_string(op.slot->index) : "the engine") + ": " + what);
}

// ---- Answers ------------------------------------------------------------------------------------

void Clients::complete(Op& op, const error_code& error, const std::string& outcome) {
  op.ended = true;
  const std::string what = error ? name_of(errc_of(error)) : outcome;
  trace_op(op, error ? what + ": " + error.message() : what);
  tally_.count(op.kind, what);
}

void Clients::completed_generation(Op& op, const error_code& error, const GenerateResult& result) {
  ++op.completions;
  judge_error(op, error, now());
  if (!error) {
    if (result.tokens.size() < op.tokens.size() || result.prompt_tokens != op.tokens.size() ||
        !std::equal(op.tokens.begin(), op.tokens.end(), result.tokens.begin())) {
      fail(op, "the result does not begin with the prompt");
    }
    const std::span<const int32_t> tokens(result.tokens);
    const auto made = tokens.subspan(op.tokens.size());
    judge_end(op, made, result.finish_reason, result.loops, result.timings, now());
    if (op.kind == OpKind::chunks && !std::ranges::equal(op.got, made)) {
      fail(op, "chunks and result differ");
    }
  }
  complete(op, error, to_string(result.finish_reason));
}

}  // namespace tinyloop::sim
