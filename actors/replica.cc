#include "actors/replica.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "actors/error.h"
#include "actors/replica_life.h"
#include "engine/model_spec.h"

namespace tinyloop::actors {

namespace {

base::Error full_error(const Mailbox& mailbox) {
  const size_t bound = mailbox.max_queued();
  // It was full; by now a place may be free, or more may wait than there are places.
  return {errc::overloaded, "mailbox holds " + std::to_string(std::max(mailbox.queued(), bound)) +
                                " of " + std::to_string(bound) + " requests (max_queued)"};
}

std::string seconds_text(std::chrono::steady_clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", std::chrono::duration<double>(time).count());
  return text;
}

base::Error closed_error(errc closed) {
  if (closed == errc::shutdown) return {errc::shutdown, "the engine has been shut down"};
  return {closed, "the model has been unloaded"};
}

}  // namespace

Replica::Replica(ContextRef context, std::shared_ptr<Courier> courier, std::string path,
                 ModelOptions options, size_t number)
    : context_(std::move(context)),
      path_(std::move(path)),
      options_(std::move(options)),
      number_(number),
      inbox_(std::make_shared<Inbox>(size_t(options_.max_queued), std::move(courier),
                                     *context_->platform.clock)) {}

void Replica::start(const std::string& thread_name, Loaded loaded) {
  thread_.start(thread_name, context_,
                std::make_shared<ReplicaLife>(shared_from_this(), std::move(loaded)));
}

void Replica::never_started() {
  inbox_->mailbox.close();
  end();
}

std::unique_ptr<engine::BatchEngine> Replica::load() {
  const TimePoint begin = inbox_->clock.now();
  take_backend(context_->platform.make_backend(options_).value());
  auto engine =
      engine::BatchEngine::load(path_, options_, *backend_, ledger_, context_->log).value();
  if (options_.trace_events > 0) {
    if (!inbox_->tracer) inbox_->tracer = std::make_unique<Tracer>(trace_events(), inbox_->clock);
    engine->set_pass_observer(inbox_->tracer.get());
  }
  const TimePoint end = inbox_->clock.now();
  if (loaded_at_ == TimePoint()) {
    describe(*engine);
    loaded_at_ = end;
  } else {
    check_same(*engine);
  }
  say(base::LogLevel::info, [&] {
    return "loaded on " + info_.device + ", " + std::to_string(memory().total()) + " bytes, in " +
           seconds_text(end - begin);
  });
  return engine;
}

void Replica::describe(const engine::BatchEngine& engine) {
  limits_ = engine.limits();
  tokenizer_ = engine.tokenizer();
  prefix_sizes_ = engine.prefix_sizes();
  info_ = info_of(engine);
}

// What callers have been told is constant.
void Replica::check_same(const engine::BatchEngine& engine) const {
  if (engine.limits() == limits_ && engine.prefix_sizes() == prefix_sizes_ &&
      info_of(engine) == info_) {
    return;
  }
  throw base::Failure(errc::bad_model_file,
                      path_ + ": another model than the one that was loaded from there first");
}

ModelInfo Replica::info_of(const engine::BatchEngine& engine) const {
  const engine::ModelSpec& spec = engine.spec();
  const engine::RequestLimits& limits = engine.limits();
  return {.name = spec.name,
          .architecture = spec.architecture,
          .path = path_,
          .device = backend_->description(),
          .prelude_layers = spec.prelude,
          .shared_layers = spec.shared,
          .coda_layers = spec.coda,
          .default_loops = limits.default_loops,
          .max_loops = limits.max_loops,
          .d_model = spec.d_model,
          .vocab = limits.vocab,
          .context_length = limits.trained_context,
          .max_seq_len = limits.max_seq_len};
}

// Reports look at it meanwhile, where it is not the first one.
void Replica::take_backend(std::unique_ptr<kernels::Backend> backend) {
  const std::lock_guard lock(backend_mutex_);
  backend_ = std::move(backend);
}

// On the replica's thread, like all calls to the backend.
void Replica::release_backend() {
  std::unique_ptr<kernels::Backend> last;
  const std::lock_guard lock(backend_mutex_);
  past_work_ = device_work();
  last.swap(backend_);
}

void Replica::end() {
  inbox_->tracer.reset();  // handles may keep the inbox
  if (!info_.device.empty()) {
    say(base::LogLevel::info, [&] {
      return "unloaded, " + std::to_string(counters_.snapshot().accepted) + " requests in " +
             seconds_text(inbox_->clock.now() - loaded_at_);
    });
  }
  inbox_->cancels.close();
  inbox_->releases.close([](Lease& lease) { Lease::finish(lease); });
  state_.store(ReplicaState::closed);
  closed_.open();
}

base::Error Replica::unloading() noexcept {
  return with_sentence(errc::shutdown, "the model is being unloaded");
}

std::optional<base::Error> Replica::refusal(errc closed) const noexcept {
  switch (state_.load()) {
    case ReplicaState::loading:
    case ReplicaState::serving:
      return std::nullopt;
    case ReplicaState::draining:
      if (close_requested()) return unloading();
      return with_sentence(errc::shutdown, "the replica is being drained");
    case ReplicaState::drained:
      return with_sentence(errc::shutdown, "the replica has been drained");
    case ReplicaState::closed:
      return closed_error(closed);
    case ReplicaState::failed:
      break;
  }
  const std::lock_guard lock(error_mutex_);
  return with_sentence(errc::replica_failed, last_error_);
}

void Replica::submit(const OperationPtr& operation, errc closed, bool let_in) {
  const bool on_its_way = let_in && state() == ReplicaState::draining && !close_requested();
  if (auto error = refusal(closed); error && !on_its_way) {
    return reject(*operation, make_error(told(*operation, *error)));
  }
  switch (inbox_->send(operation)) {
    case Sent::accepted:
      return;
    case Sent::full:
      return reject(*operation, make_error(full_error(inbox_->mailbox)));
    case Sent::closed:
      return reject(*operation,
                    make_error(told(*operation, refusal(closed).value_or(unloading()))));
  }
}

// What was kept on a replica that has failed, or gives its memory back though its model goes on, is
// lost, wherever the request is sent next.
base::Error Replica::told(const Operation& operation, base::Error error) const noexcept {
  const bool lost =
      error.code == errc::replica_failed || (error.code == errc::shutdown && !close_requested());
  if (operation.base && lost) error.code = errc::handle_lost;
  return error;
}

error_code Replica::send(std::unique_ptr<Message>& message, errc closed) {
  // What led to a failure can still be read, and the replica be loaded again.
  const bool takes_all =
      std::holds_alternative<Maintain>(*message) || std::holds_alternative<ReadTrace>(*message);
  if (state() == ReplicaState::closed || (state() == ReplicaState::failed && !takes_all)) {
    return make_error(refusal(closed).value_or(unloading()));
  }
  switch (inbox_->send(message)) {
    case Sent::accepted:
      return {};
    case Sent::full:
      return make_error(errc::overloaded, "mailbox holds " + std::to_string(Mailbox::kAdminRoom) +
                                              " of " + std::to_string(Mailbox::kAdminRoom) +
                                              " administrative messages");
    case Sent::closed:
      break;
  }
  // That it has failed is no reason for those.
  if (takes_all && state() != ReplicaState::closed) return make_error(unloading());
  return make_error(refusal(closed).value_or(unloading()));
}

void Replica::reject(Operation& operation, error_code error, OnThread thread) {
  operation.end({error});
  note_refused(operation.outcome.error);
  // Whoever still refers to the operation, a cancellation slot say, must not hold prefixes.
  operation.base.reset();
  operation.pool.lease.reset();
  operation.complete(thread);
}

void Replica::note_refused(const error_code& error) noexcept {
  counters_.count_rejected(error);
  say(base::LogLevel::debug, [&] { return "request refused: " + error.message(); });
}

// That its caller has cancelled a request is nothing to tell.
void Replica::note_completed(const Outcome& outcome) noexcept {
  counters_.count_completed(outcome);
  if (!outcome.error || outcome.error == errc::operation_aborted) return;
  say(base::LogLevel::debug, [&] { return "request failed: " + outcome.error.message(); });
}

void Replica::request_close(ShutdownMode mode) noexcept {
  const int wanted = 1 + int(mode);
  int present = close_request_.load();
  while (present < wanted && !close_request_.compare_exchange_weak(present, wanted)) {
  }
  show_close_request();
  inbox_->waker.wake();
}

// A replica that has been asked to close is draining, whatever its thread has made of it meanwhile;
// one that has failed stays so to its end.
void Replica::show_close_request() noexcept {
  for (auto open : {ReplicaState::loading, ReplicaState::serving, ReplicaState::drained})
    state_.compare_exchange_strong(open, ReplicaState::draining);
}

void Replica::enter(ReplicaState state) noexcept {
  state_.store(state);
  if (close_requested()) show_close_request();
}

std::optional<ShutdownMode> Replica::close_requested() const noexcept {
  const int request = close_request_.load();
  if (request == 0) return std::nullopt;
  return ShutdownMode(request - 1);
}

void Replica::join() noexcept {
  if (!thread_.is_current()) thread_.join();
}

void Replica::mark_failed(const base::Error& error) noexcept {
  counters_.count_failure();
  try {
    set_last_error(error.detail);
  } catch (const std::bad_alloc&) {  // the state says it without the sentence
  }
  state_.store(ReplicaState::failed);
  say(base::LogLevel::error, [&] { return "replica failed: " + error.detail; });
}

void Replica::set_last_error(const std::string& text) {
  const std::lock_guard lock(error_mutex_);
  last_error_ = text;
}

MemoryReport Replica::memory() const {
  const std::lock_guard lock(backend_mutex_);
  return backend_ ? ledger_.report(backend_->memory()) : MemoryReport{};
}

Statistics Replica::statistics() const {
  Statistics statistics = counters_.snapshot();
  const std::lock_guard lock(backend_mutex_);
  const DeviceWork work = device_work();
  statistics.saturated_values = work.saturated;
  statistics.device_launches = work.launches;
  return statistics;
}

Metrics Replica::metrics() const {
  Metrics metrics{.model = info_.name, .replica = number_, .device = info_.device};
  metrics.uptime_s = std::chrono::duration<double>(inbox_->clock.now() - loaded_at_).count();
  metrics.state = state_.load();
  metrics.queued = inbox_->mailbox.queued();
  metrics.active = active_.load();
  metrics.statistics = statistics();
  metrics.memory = memory();
  metrics.rejections = counters_.rejections();
  const CancelCounts& cancels = inbox_->cancel_counts;
  metrics.cancels = {
      .queued = cancels.at(CancelPhase::queued),
      .prefill = cancels.at(CancelPhase::prefill),
      .decode = cancels.at(CancelPhase::decode),
      .too_late = cancels.at(CancelPhase::completing) + cancels.at(CancelPhase::done)};
  metrics.pool = counters_.lookups();
  metrics.out_of_memory = counters_.out_of_memory();
  metrics.failures = counters_.failures();
  inbox_->distributions.fill(metrics);
  return metrics;
}

// Of all backends since the first load. With the lock.
Replica::DeviceWork Replica::device_work() const {
  if (!backend_) return past_work_;
  return {past_work_.saturated + backend_->saturated(),
          past_work_.launches + backend_->host_launches()};
}

HealthReport::Replica Replica::health() const {
  HealthReport::Replica report;
  report.state = state_.load();
  report.can_serve = report.state == ReplicaState::serving;
  report.device = info_.device;
  report.queued = inbox_->mailbox.queued();
  report.active = active_.load();
  const MemoryReport bytes = memory();
  if (bytes.cache_budget > bytes.cache_reserved)
    report.free_cache_bytes = bytes.cache_budget - bytes.cache_reserved;
  report.out_of_memory = counters_.out_of_memory();
  report.failures = counters_.failures();
  {
    const std::lock_guard lock(error_mutex_);
    report.last_error = last_error_;
  }
  return report;
}

}  // namespace tinyloop::actors
