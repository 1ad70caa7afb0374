#include "actors/engine_state.h"

#include <new>
#include <system_error>
#include <utility>

#include "actors/default_log.h"
#include "actors/error.h"
#include "actors/model_state.h"
#include "actors/replica_devices.h"
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
  return make_error(with_sentence(errc::shutdown, "the engine has been shut down"));
}

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

// The replicas of a model on their way: the last one to be loaded, or not, decides what becomes of
// them all.
class EngineState::GroupLoad {
 public:
  GroupLoad(std::shared_ptr<EngineState> engine, GroupRef group, std::shared_ptr<Load> request)
      : engine_(std::move(engine)),
        group_(std::move(group)),
        request_(std::move(request)),
        left_(group_->size()) {
    const auto open = std::make_shared<std::atomic<size_t>>(left_);
    for (size_t i = 0; i < left_; ++i) {
      when_closed_.push_back([request = request_, open] {
        if (open->fetch_sub(1) == 1) request->done(request->refusal, {});
      });
    }
  }

  const ReplicaGroup& group() const { return *group_; }

  // On each replica's thread.
  void loaded(const std::optional<base::Error>& error) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (error && !error_) error_ = with_sentence(error->code, error->detail);
      if (--left_ > 0) return;
    }
    if (const auto why = refusal()) return give_back(*why);
    Model model;
    try {
      model = Model(std::make_shared<ModelState>(engine_, group_));
    } catch (const std::bad_alloc&) {
      return give_back(make_error(errc::out_of_memory, {}));
    }
    request_->done({}, std::move(model));
  }

 private:
  std::optional<error_code> refusal() const {
    if (error_) return make_error(*error_);
    if (request_->cancelled.load()) return make_error(errc::operation_aborted, {});
    if (engine_->is_closed()) return shutdown_error();
    return std::nullopt;
  }

  // Nobody wants them. The caller is told when the memory is back.
  void give_back(error_code why) noexcept {
    request_->refusal = why;
    group_->request_close(ShutdownMode::cancel);
    for (size_t i = 0; i < group_->size(); ++i) {
      (*group_)[i].when_closed(std::move(when_closed_[i]));
    }
  }

  const std::shared_ptr<EngineState> engine_;
  const GroupRef group_;
  const std::shared_ptr<Load> request_;
  // Of each replica. Made at the start: a load may fail because there is no host memory.
  std::vector<ClosedLatch::Callback> when_closed_;
  std::mutex mutex_;  // guards what follows
  size_t left_;
  std::optional<base::Error> error_;  // the first one
};

void EngineState::load(std::string path, ModelOptions options, std::shared_ptr<Load> request) {
  if (auto checked = engine::check_options(options); !checked)
    return request->done(make_error(checked.error()), {});
  const auto each = options_of_replicas(options);
  if (!each) return request->done(make_error(each.error()), {});
  std::vector<ReplicaRef> replicas;
  for (const ModelOptions& own : each.value()) {
    replicas.push_back(std::make_shared<Replica>(context_, courier_, path, own, replicas.size()));
  }
  const auto group = std::make_shared<const ReplicaGroup>(std::move(replicas));
  const auto load = std::make_shared<GroupLoad>(shared_from_this(), group, request);
  if (error_code error = start(load)) request->done(error, {});
}

error_code EngineState::start(const std::shared_ptr<GroupLoad>& load) {
  const std::lock_guard lock(mutex_);
  if (closed_) return shutdown_error();
  std::erase_if(replicas_, [](const auto& gone) { return gone.expired(); });
  const auto told = [load](const std::optional<base::Error>& error) { load->loaded(error); };
  bool any = false;
  for (const ReplicaRef& replica : load->group().all()) {
    const std::string name = "tinyloop-r" + std::to_string(started_);
    try {
      replica->start(name, told);
    } catch (const std::system_error& error) {
      const base::Error why{errc::overloaded, "cannot start thread " + name + ": " + error.what()};
      if (!any) return make_error(why);
      replica->never_started();
      told(why);
      continue;
    }
    any = true;
    ++started_;
    replicas_.push_back(replica);
  }
  return {};
}

void EngineState::close(ShutdownMode mode) {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  replicas().request_close(mode);
}

void EngineState::when_all_closed(std::function<void()> callback) {
  replicas().when_closed(std::move(callback));
}

void EngineState::finish() noexcept {
  const ReplicaGroup alive = replicas();
  for (const ReplicaRef& replica : alive.all()) replica->join();
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

ReplicaGroup EngineState::replicas() const {
  std::vector<ReplicaRef> alive;
  const std::lock_guard lock(mutex_);
  for (const auto& known : replicas_)
    if (auto replica = known.lock()) alive.push_back(std::move(replica));
  return ReplicaGroup(std::move(alive));
}

}  // namespace tinyloop::actors
