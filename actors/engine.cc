#include "tinyloop/engine.h"

#include <boost/asio/system_executor.hpp>
#include <boost/system/system_error.hpp>
#include <future>
#include <utility>

#include "actors/engine_state.h"
#include "actors/error.h"
#include "actors/reply.h"

namespace tinyloop {

namespace {

// The state of an engine that was moved from does not exist.
error_code no_engine() {
  return actors::make_error(errc::shutdown, "the engine was moved from");
}

}  // namespace

Engine::Engine(EngineOptions options)
    : state_(std::make_shared<actors::EngineState>(std::move(options))) {}

Engine& Engine::operator=(Engine&& other) noexcept {
  if (this == &other) return *this;
  close();
  state_ = std::move(other.state_);
  return *this;
}

Engine::~Engine() {
  close();
}

void Engine::close() noexcept {
  if (!state_) return;
  state_->close(ShutdownMode::cancel);
  state_->finish();
  state_.reset();
}

Model Engine::load(std::string path, ModelOptions options) {
  if (!state_) throw boost::system::system_error(no_engine());
  // Shared: the setter may still be inside set_value when the waiter goes on.
  const auto promise = std::make_shared<std::promise<std::pair<error_code, Model>>>();
  auto request = std::make_shared<actors::EngineState::Load>();
  request->done = [promise](error_code error, Model model) {
    promise->set_value({error, std::move(model)});
  };
  state_->load(std::move(path), std::move(options), std::move(request));
  auto [error, model] = promise->get_future().get();
  if (error) throw boost::system::system_error(error);
  return model;
}

void Engine::shutdown(ShutdownMode mode) {
  if (!state_) return;
  state_->close(mode);
  const auto closed = std::make_shared<std::promise<void>>();
  state_->when_all_closed([closed] { closed->set_value(); });
  closed->get_future().wait();
  state_->flush_courier();
}

namespace detail {

boost::asio::any_io_executor default_executor(const EngineRef& engine) {
  if (!engine) return boost::asio::system_executor();
  return engine->executor();
}

void load(const EngineRef& engine, std::string path, ModelOptions options,
          Completion<Model> completion) {
  if (!engine) return completion.post(no_engine(), {});
  auto slot = completion.slot();
  const auto reply = actors::make_reply(std::move(completion));
  if (!reply) return;
  auto request = std::make_shared<actors::EngineState::Load>();
  if (slot.is_connected()) {
    slot.assign([request](boost::asio::cancellation_type type) {
      if (type != boost::asio::cancellation_type::none) request->cancelled.store(true);
    });
  }
  request->done = [reply, courier = engine->courier()](error_code error, Model model) {
    reply->set(error, std::move(model));
    courier->send(*reply);
  };
  engine->load(std::move(path), std::move(options), std::move(request));
}

void shutdown(const EngineRef& engine, ShutdownMode mode, Completion<> completion) {
  if (!engine) return completion.post({});
  engine->close(mode);
  const auto reply = actors::make_reply(std::move(completion));
  if (!reply) return;
  engine->when_all_closed([reply, courier = engine->courier()] { courier->send_last(*reply); });
}

}  // namespace detail

}  // namespace tinyloop
