#include "actors/engine_state.h"

#include <new>
#include <system_error>
#include <utility>

#include "actors/default_log.h"
#include "actors/error.h"
#include "actors/model_state.h"
#include "engine/request.h"

namespace tinyloop::actors {

namespace {

ContextRef make_context(EngineOptions& options, Platform platform) {
  EngineContext context;
  context.log_level = options.log_level;
  context.log = options.log ? guarded(std::move(options.log), options.log_level)
                            : default_log(options.log_level);
  context.on_thread_start = std::move(options.on_thread_start);
  context.on_thread_stop = std::move(options.on_thread_stop);
  context.platform = std::move(platform);
  return std::make_shared<const EngineContext>(std::move(context));
}

error_code shutdown_error() {
  return make_error(errc::shutdown, "the engine has been shut down");
}

// Runs a callback when its last holder lets go.
struct LastOne {
  explicit LastOne(std::function<void()> run) : callback(std::move(run)) {}
  ~LastOne() { callback(); }
  std::function<void()> callback;
};

}  // namespace

EngineState::EngineState(EngineOptions options, Platform platform)
    : context_(make_context(options, std::move(platform))),
      executor_(options.executor ? *options.executor : thread_.emplace(context_).executor()) {
  courier_thread_.start("tinyloop-post", context_, courier_);
}

EngineState::~EngineState() {
  // What the courier's thread has in hand may be what the other one waits for.
  if (thread_ && courier_thread_.is_current()) thread_->let_go();
  courier_->close();
}

bool EngineState::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void EngineState::load(std::string path, ModelOptions options, std::shared_ptr<Load> request) {
  if (auto checked = engine::check_options(options); !checked)
    return request->done(make_error(checked.error()), {});
  const auto replica =
      std::make_shared<Replica>(context_, courier_, std::move(path), std::move(options));
  if (error_code error = start(replica, request)) request->done(error, {});
}

error_code EngineState::start(const ReplicaRef& replica, const std::shared_ptr<Load>& request) {
  const std::lock_guard lock(mutex_);
  if (closed_) return shutdown_error();
  std::erase_if(replicas_, [](const auto& gone) { return gone.expired(); });
  replicas_.push_back(replica);
  const std::string name = "tinyloop-r" + std::to_string(started_);
  try {
    replica->start(name, [self = shared_from_this(), replica, request](auto error) {
      self->loaded(replica, *request, error);
    });
  } catch (const std::system_error& error) {
    return make_error(errc::overloaded, "cannot start thread " + name + ": " + error.what());
  }
  ++started_;
  return {};
}

// On the replica's thread.
void EngineState::loaded(const ReplicaRef& replica, Load& request,
                         const std::optional<base::Error>& error) {
  if (error) return request.done(make_error(*error), {});
  if (!request.cancelled.load() && !is_closed()) {
    Model model;
    try {
      model = Model(std::make_shared<ModelState>(shared_from_this(), replica));
    } catch (const std::bad_alloc&) {
      replica->request_close(ShutdownMode::cancel);
      return request.done(make_error(errc::out_of_memory, {}), {});
    }
    return request.done({}, std::move(model));
  }
  // Nobody wants it any more. The caller is told when the memory is back.
  replica->request_close(ShutdownMode::cancel);
  const error_code why =
      request.cancelled.load() ? make_error(errc::operation_aborted, {}) : shutdown_error();
  replica->when_closed([done = std::move(request.done), why] { done(why, {}); });
}

void EngineState::close(ShutdownMode mode) {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  for (const ReplicaRef& replica : replicas()) replica->request_close(mode);
}

void EngineState::when_all_closed(std::function<void()> callback) {
  const auto last = std::make_shared<LastOne>(std::move(callback));
  for (const ReplicaRef& replica : replicas()) replica->when_closed([last] {});
}

void EngineState::finish() noexcept {
  for (const ReplicaRef& replica : replicas()) replica->join();
  if (courier_thread_.is_current()) return;  // see the destructor
  flush_courier();
  try {
    if (thread_) thread_->flush();
  } catch (const std::bad_alloc&) {
    // Nothing can be posted now; what has been posted still runs.
  }
}

void EngineState::flush_courier() const noexcept {
  if (!courier_thread_.is_current()) courier_->flush();
}

std::vector<ReplicaRef> EngineState::replicas() {
  std::vector<ReplicaRef> alive;
  const std::lock_guard lock(mutex_);
  for (const auto& known : replicas_)
    if (auto replica = known.lock()) alive.push_back(std::move(replica));
  return alive;
}

}  // namespace tinyloop::actors
