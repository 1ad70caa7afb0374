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

  Replica(ContextRef context, std::shared_ptr<Courier> courier, std::string path,
          ModelOptions options);

  // Starts the thread, which loads the model and then serves until it is closed. Once. Throws
  // std::system_error if no thread can be started.
  void start(const std::string& thread_name, Loaded loaded);

  // Constant once loaded.
  const ModelInfo& info() const noexcept { return info_; }
  const engine::RequestLimits& limits() const noexcept { return limits_; }
  const std::shared_ptr<const engine::Tokenizer>& tokenizer() const noexcept { return tokenizer_; }
  const engine::PrefixSizes& prefix_sizes() const noexcept { return prefix_sizes_; }
  const std::shared_ptr<Inbox>& inbox() const noexcept { return inbox_; }

  // Why a request sent now would be refused. `closed`: the code once nothing is left.
  std::optional<base::Error> refusal(errc closed) const;
  // Sends the operation or completes it with the reason why not.
  void submit(const OperationPtr& operation, errc closed);
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

  MemoryReport memory() const;
  HealthReport health() const;
  Statistics statistics() const;
  Metrics metrics() const;
  Counters& counters() noexcept { return counters_; }

  // How an error that ends everything here reads to one request.
  static base::Error told(const Operation& operation, base::Error error);

  // For the actor.
  const ContextRef& context() const noexcept { return context_; }
  size_t trace_events() const noexcept { return size_t(options_.trace_events); }
  size_t cache_budget() const noexcept { return options_.cache_budget_bytes; }
  std::optional<ShutdownMode> close_requested() const noexcept;
  void mark_failed(const base::Error& error) noexcept;
  void set_active(size_t count) noexcept { active_.store(count); }

 private:
  using EnginePtr = std::unique_ptr<engine::BatchEngine>;
  // What a backend counts.
  struct DeviceWork {
    uint64_t saturated = 0;
    uint64_t launches = 0;
  };

  class Life;

  // As EngineContext::say, behind the file's name.
  template <class MakeMessage>
  void say(base::LogLevel level, MakeMessage&& make_message) const noexcept {
    context_->say(level, [&] { return path_ + ": " + make_message(); });
  }
  EnginePtr load();
  void describe(const engine::BatchEngine& engine);
  void release_backend();
  void end();
  void set_last_error(const std::string& text);
  static DeviceWork work_of(const kernels::Backend& backend);

  const ContextRef context_;
  const std::string path_;
  const ModelOptions options_;
  const std::shared_ptr<Inbox> inbox_;
  engine::MemoryLedger ledger_;
  mutable std::mutex backend_mutex_;  // between reports and the end of the backend
  std::unique_ptr<kernels::Backend> backend_;
  DeviceWork last_work_;  // of a backend that is gone
  TimePoint loaded_at_{};
  ModelInfo info_;
  engine::RequestLimits limits_;
  std::shared_ptr<const engine::Tokenizer> tokenizer_;
  engine::PrefixSizes prefix_sizes_;
  Counters counters_;
  std::atomic<ReplicaState> state_{ReplicaState::loading};
  std::atomic<int> close_request_{0};  // 0: none, else 1 + ShutdownMode
  std::atomic<size_t> active_{0};
  mutable std::mutex error_mutex_;
  std::string last_error_;
  ClosedLatch closed_;
  NamedThread thread_;
};

using ReplicaRef = std::shared_ptr<Replica>;

}  // namespace tinyloop::actors
