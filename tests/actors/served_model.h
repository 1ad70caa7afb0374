// An engine that serves a small random model, and the means to stop its replica at a chosen point,
// so that no test depends on timing.
#pragma once

#include <pthread.h>

#include <boost/asio/use_future.hpp>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "actors/message.h"
#include "actors/model_state.h"
#include "engine/step_plan.h"
#include "tests/support/random_model.h"
#include "tests/support/test_backend.h"
#include "tests/support/test_device.h"
#include "tinyloop/tinyloop.h"

namespace tinyloop::testing {

inline const RandomModel& small_model() {
  static const RandomModel model = write_random_model();
  return model;
}

inline ModelOptions small_options() {
  ModelOptions options = device_options();
  options.max_seq_len = 256;
  options.max_sequences = 4;
  options.max_queued = 8;
  options.cpu_threads = 1;
  return options;
}

inline EngineOptions quiet() {
  EngineOptions options;
  options.log = [](LogLevel, std::string_view) {};
  return options;
}

// A prompt that depends on `seed`; never stops by itself before max_tokens.
inline GenerateRequest request(int32_t max_tokens, int32_t seed = 1) {
  GenerateRequest request;
  for (int32_t i = 0; i < 5; ++i) request.tokens.push_back(1 + (seed * 31 + i * 7) % 299);
  request.config.max_tokens = max_tokens;
  request.config.eos = EosMode::ignore;
  return request;
}

// Sends a message to the replica; `visit` runs on its thread.
inline void visit_replica(const Model& model, std::function<void(engine::BatchEngine&)> visit,
                          size_t replica = 0) {
  auto message = std::make_unique<actors::Message>(actors::Visit{std::move(visit)});
  const error_code error = model.state()->replica(replica).send(message, errc::model_closed);
  if (error) throw boost::system::system_error(error);
}

// While it lives, the replica takes no message and runs no step. The constructor returns when it
// has stopped.
class Pause {
 public:
  explicit Pause(const Model& model, size_t replica = 0) {
    auto stopped = std::make_shared<std::promise<void>>();
    visit_replica(
        model,
        [stopped, go = go_.get_future().share()](engine::BatchEngine&) {
          stopped->set_value();
          go.wait();
        },
        replica);
    stopped->get_future().wait();
  }
  ~Pause() { go_.set_value(); }

 private:
  std::promise<void> go_;
};

// Lets the replica run a counted number of passes at a time. Must be opened before it dies.
class StepGate {
 public:
  explicit StepGate(const Model& model) : state_(std::make_shared<State>()) {
    visit_replica(model, [state = state_](engine::BatchEngine& engine) {
      engine.set_plan_observer([state](const engine::StepPlan&) { state->enter(); });
    });
  }
  ~StepGate() { open(); }

  void allow(int passes) { state_->add(passes); }
  void open() { state_->add(1 << 20); }
  // Returns when the replica stands before a pass that is not allowed.
  void wait_until_stopped() { state_->wait(); }
  void run(int passes) {
    allow(passes);
    wait_until_stopped();
  }

 private:
  struct State {
    void enter() {
      std::unique_lock lock(mutex);
      stopped = allowed == 0;
      changed.notify_all();
      changed.wait(lock, [this] { return allowed > 0; });
      stopped = false;
      --allowed;
    }
    void add(int passes) {
      const std::lock_guard lock(mutex);
      allowed += passes;
      stopped = false;
      changed.notify_all();
    }
    void wait() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return stopped; });
    }

    std::mutex mutex;
    std::condition_variable changed;
    int allowed = 0;
    bool stopped = false;
  };

  std::shared_ptr<State> state_;
};

inline std::string thread_name() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

// Futures that hold the error beside the result instead of throwing it: an exception that crosses
// threads looks like a race to ThreadSanitizer, for its reference count is inside libstdc++.so.
template <class Result>
struct Outcome : Result {
  error_code error;
};

// A token for operations with a result of class type: std::future<Outcome<Result>>.
inline auto use_outcome() {
  return boost::asio::use_future([](error_code error, auto result) {
    return Outcome<decltype(result)>{std::move(result), error};
  });
}

// A token for any operation: std::future<error_code>.
inline auto use_error() {
  return boost::asio::use_future([](error_code error, auto&&...) { return error; });
}

template <class Result>
error_code error_of(std::future<Outcome<Result>>& future) {
  return future.get().error;
}

class ServedModel {
 public:
  explicit ServedModel(const ModelOptions& options = small_options(),
                       EngineOptions engine_options = quiet())
      : engine(std::move(engine_options)), model(engine.load(small_model().path(), options)) {}

  GenerateResult generate(const GenerateRequest& what) const {
    return model.async_generate(what, boost::asio::use_future).get();
  }

  Engine engine;
  Model model;
};

// K/V bytes of `what` on a model with small_options().
inline size_t bytes_of(const GenerateRequest& what) {
  const ServedModel served;
  StepGate gate(served.model);
  auto future = served.model.async_generate(what, boost::asio::use_future);
  gate.run(1);
  const size_t bytes = served.model.memory().cache_reserved;
  gate.open();
  future.get();
  return bytes;
}

// An engine whose replicas run on backends that the test makes.
class EngineOn {
 public:
  explicit EngineOn(actors::MakeBackend make_backend)
      : state_(std::make_shared<actors::EngineState>(
            quiet(), actors::Platform{.make_backend = std::move(make_backend)})) {}
  ~EngineOn() {
    state_->close(ShutdownMode::cancel);
    state_->finish();
  }

  // As Engine::load, with the error beside the model instead of thrown.
  std::pair<error_code, Model> load(const ModelOptions& options = small_options(),
                                    const std::string& path = small_model().path()) {
    const auto loaded = std::make_shared<std::promise<std::pair<error_code, Model>>>();
    auto request = std::make_shared<actors::EngineState::Load>();
    request->done = [loaded](error_code error, Model model) {
      loaded->set_value({error, std::move(model)});
    };
    state_->load(path, options, std::move(request));
    return loaded->get_future().get();
  }

 private:
  const std::shared_ptr<actors::EngineState> state_;
};

// The CPU as `device` says.
inline actors::MakeBackend test_backends(std::shared_ptr<TestDevice> device) {
  return [device = std::move(device)](
             const ModelOptions& options) -> base::Result<std::unique_ptr<kernels::Backend>> {
    return std::make_unique<TestBackend>(kernels::make_backend(options).value(), device);
  };
}

}  // namespace tinyloop::testing
