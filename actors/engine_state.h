// What an Engine and the models loaded by it share.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/completion_thread.h"
#include "actors/courier.h"
#include "actors/engine_context.h"
#include "actors/replica_group.h"
#include "tinyloop/engine.h"

namespace tinyloop::actors {

class EngineState : public std::enable_shared_from_this<EngineState> {
 public:
  explicit EngineState(EngineOptions options, Platform platform = {});
  ~EngineState();

  // Any thread.
  const boost::asio::any_io_executor& executor() const noexcept { return executor_; }
  bool is_closed() const;
  const base::LogSink& log() const noexcept { return context_->log; }
  const std::shared_ptr<Courier>& courier() const noexcept { return courier_; }
  // Waits until the handlers of all that has completed are posted; on the courier's own thread,
  // returns at once.
  void flush_courier() const noexcept;
  // See CompletionThread::hold_chain; null where the owner gave an executor.
  std::shared_ptr<void> hold_chain(const boost::asio::any_io_executor& executor) const {
    return thread_ ? thread_->hold_chain(executor) : nullptr;
  }

  // A load on its way. `done` is called once, on the caller's or the replica's thread. Must not
  // run the caller's code.
  struct Load {
    std::function<void(error_code, Model)> done;
    std::atomic<bool> cancelled{false};
    error_code refusal;  // why it fails, once that is known
  };
  void load(std::string path, ModelOptions options, std::shared_ptr<Load> request);

  // Refuses loads from now on and asks every replica to close.
  void close(ShutdownMode mode);
  // Calls back once when every replica there is has closed.
  void when_all_closed(std::function<void()> callback);
  // After close(): waits for the replicas' threads and for the handlers due on the engine's own.
  void finish() noexcept;

 private:
  class GroupLoad;

  ReplicaGroup replicas() const;
  error_code start(const std::shared_ptr<GroupLoad>& load);

  const ContextRef context_;
  std::optional<CompletionThread> thread_;  // unless the owner gave an executor
  const boost::asio::any_io_executor executor_;
  const std::shared_ptr<Courier> courier_ = std::make_shared<Courier>();
  NamedThread courier_thread_;
  mutable std::mutex mutex_;  // guards what follows; held for moments only
  bool closed_ = false;
  size_t started_ = 0;
  std::vector<std::weak_ptr<Replica>> replicas_;
};

}  // namespace tinyloop::actors
