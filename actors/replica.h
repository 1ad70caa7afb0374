// One loaded copy of a model and the thread that runs it. This is the part that any thread may
// touch; what the thread does is in replica_actor.h.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/closed_latch.h"
#include "actors/counters.h"
#include "actors/engine_context.h"
#include "actors/inbox.h"
#include "actors/named_thread.h"
#include "engine/batch_engine.h"
#include "engine/memory_ledger.h"
#include "kernels/backend.h"
#include "tinyloop/metrics.h"
#include "tinyloop/model.h"

namespace tinyloop::actors {

class Replica : public std::enable_shared_from_this<Replica> {
 public:
  // Told the end of the load, on the replica's thread: nullopt, or why it failed. Must not throw.
  using Loaded = std::function<void(std::optional<base::Error>)>;

  // `number`: among the replicas of its model, from 0.
  Replica(ContextRef context, std::shared_ptr<Courier> courier, std::string path,
          ModelOptions options, size_t number);

  // Starts the thread, which loads the model and then serves until it is closed. Once. Throws
  // std::system_error if no thread can be started.
  void start(const std::string& thread_name, Loaded loaded);

  size_t number() const noexcept { return number_; }
  // In place of start(), where that has thrown: it has ended.
  void never_started();

  // Constant once loaded.
  const ModelInfo& info() const noexcept { return info_; }
  const engine::RequestLimits& limits() const noexcept { return limits_; }
  const std::shared_ptr<const engine::Tokenizer>& tokenizer() const noexcept { return tokenizer_; }
  const engine::PrefixSizes& prefix_sizes() const noexcept { return prefix_sizes_; }
  const std::shared_ptr<Inbox>& inbox() const noexcept { return inbox_; }

  // Why a request sent now would be refused. `closed`: the code once nothing is left.
  std::optional<base::Error> refusal(errc closed) const noexcept;
  // Why what a replica takes in any state is refused while its model ends.
  static base::Error unloading() noexcept;
  // A request is about to be sent, and has been (actors/incoming.h).
  void expect() noexcept { incoming_.fetch_add(1); }
  void arrived() noexcept {
    // It may wait for the last of them in order to end its service, drained or failed.
    if (incoming_.fetch_sub(1) == 1 && !serves()) inbox_->waker.wake();
  }
  bool expects_any() const noexcept { return incoming_.load() > 0; }
  // Sends the operation or completes it with the reason why not. One that was let in before the
  // replica was drained is served, for it was on its way (actors/incoming.h).
  void submit(const OperationPtr& operation, errc closed, bool let_in);
  // The message is kept if it is not accepted; the result says why.
  error_code send(std::unique_ptr<Message>& message, errc closed);
  // Counts what a request ends with, and says why it failed or was refused. Replica thread; any.
  void note_completed(const Outcome& outcome) noexcept;
  void note_refused(const error_code& error) noexcept;
  // Completes an operation that has not been accepted.
  void reject(Operation& operation, error_code error, OnThread thread = OnThread::callers);

  // Never fails; a later `cancel` overrides `drain`.
  void request_close(ShutdownMode mode) noexcept;
  // Calls back once the memory is given back: on this thread now, or later on the replica's.
  void when_closed(ClosedLatch::Callback callback) { closed_.when_open(std::move(callback)); }
  // Waits for the thread to end; does nothing on the thread itself.
  void join() noexcept;

  ReplicaState state() const noexcept { return state_.load(); }
  bool serves() const noexcept { return state() == ReplicaState::serving; }
  // Whether it takes requests, or is about to.
  bool can_serve() const noexcept {
    return state() == ReplicaState::serving || state() == ReplicaState::loading;
  }
  // Accepted and not complete.
  size_t requests() const noexcept { return inbox_->mailbox.queued() + active_.load(); }
  // Whether one more request would begin at once, for all that places go.
  bool has_free_place() const noexcept {
    return serves() && requests() < size_t(options_.max_sequences);
  }
  MemoryReport memory() const;
  HealthReport::Replica health() const;
  Statistics statistics() const;
  Metrics metrics() const;
  Counters& counters() noexcept { return counters_; }

  // How an error that ends everything here reads to one request.
  base::Error told(const Operation& operation, base::Error error) const noexcept;

  // For the replica's thread.
  std::unique_ptr<engine::BatchEngine> load();
  void release_backend();
  void end();
  const ContextRef& context() const noexcept { return context_; }
  size_t trace_events() const noexcept { return size_t(options_.trace_events); }
  size_t cache_budget() const noexcept { return options_.cache_budget_bytes; }
  std::optional<ShutdownMode> close_requested() const noexcept;
  void mark_loading() noexcept { enter(ReplicaState::loading); }
  void mark_serving() noexcept { enter(ReplicaState::serving); }
  void mark_draining() noexcept {
    if (state() != ReplicaState::failed) enter(ReplicaState::draining);
  }
  void mark_drained() noexcept { enter(ReplicaState::drained); }
  void mark_failed(const base::Error& error) noexcept;
  // As EngineContext::say, behind the file's name.
  template <class MakeMessage>
  void say(base::LogLevel level, MakeMessage&& make_message) const noexcept {
    context_->say(level, [&] { return path_ + ": " + make_message(); });
  }
  void set_active(size_t count) noexcept { active_.store(count); }

 private:
  // What a backend counts.
  struct DeviceWork {
    uint64_t saturated = 0;
    uint64_t launches = 0;
  };

  void take_backend(std::unique_ptr<kernels::Backend> backend);
  void describe(const engine::BatchEngine& engine);
  void check_same(const engine::BatchEngine& engine) const;
  ModelInfo info_of(const engine::BatchEngine& engine) const;
  void enter(ReplicaState state) noexcept;
  void show_close_request() noexcept;
  void set_last_error(const std::string& text);
  DeviceWork device_work() const;

  const ContextRef context_;
  const std::string path_;
  const ModelOptions options_;
  const size_t number_;
  const std::shared_ptr<Inbox> inbox_;
  engine::MemoryLedger ledger_;
  mutable std::mutex backend_mutex_;  // between reports and the end of the backend
  std::unique_ptr<kernels::Backend> backend_;
  DeviceWork past_work_;  // of backends that are gone
  TimePoint loaded_at_{};
  ModelInfo info_;
  engine::RequestLimits limits_;
  std::shared_ptr<const engine::Tokenizer> tokenizer_;
  engine::PrefixSizes prefix_sizes_;
  Counters counters_;
  std::atomic<ReplicaState> state_{ReplicaState::loading};
  std::atomic<int> close_request_{0};  // 0: none, else 1 + ShutdownMode
  std::atomic<size_t> active_{0};
  std::atomic<size_t> incoming_{0};
  mutable std::mutex error_mutex_;
  std::string last_error_;
  ClosedLatch closed_;
  NamedThread thread_;
};

using ReplicaRef = std::shared_ptr<Replica>;

}  // namespace tinyloop::actors
