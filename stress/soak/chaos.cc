#include "stress/soak/chaos.h"

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <thread>

#include "actors/message.h"
#include "actors/model_state.h"

namespace tinyloop::soak {

namespace asio = boost::asio;

namespace {

auto use_error() {
  return asio::use_future([](error_code error, auto&&...) { return error; });
}

}  // namespace

void Chaos::run(std::chrono::milliseconds interval) {
  while (!world_.stop) {
    std::this_thread::sleep_for(interval * (1 + below(100)) / 100);
    if (!world_.pauses) act();
  }
}

void Chaos::act() {
  const size_t replica = below(world_.model.health().replicas.size());
  switch (below(8)) {
    case 0:
      return kill(replica);
    case 1:
      return drain(replica);
    case 2:
      return reload(replica);
    case 3:
      return load_another();
    case 4:
      return world_.renew_pools();
    default:
      return expect("trim", world_.model.async_trim(use_error()).get());
  }
}

// By a device error between two steps, as its thread sees it.
void Chaos::kill(size_t replica) {
  if (world_.model.health().replicas.size() < 2) return;
  ++world_.kills;
  auto message = std::make_unique<actors::Message>(actors::Visit{[](engine::BatchEngine&) {
    throw base::Failure(errc::replica_failed, "killed by the soak");
  }});
  expect("kill", world_.model.state()->replica(replica).send(message, errc::model_closed));
  while (world_.model.health().replicas[replica].state != ReplicaState::failed) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(below(20)));
  reload(replica);
}

void Chaos::drain(size_t replica) {
  if (world_.model.health().replicas.size() < 2) return;
  ++world_.drains;
  expect("drain", world_.model.async_drain_replica(replica, use_error()).get());
  const auto report = world_.model.metrics()[replica];
  if (report.memory.total() != 0) world_.ledger.problem("drained, and it holds memory");
  if (report.queued + report.active != 0) world_.ledger.problem("drained, and it has requests");
  std::this_thread::sleep_for(std::chrono::milliseconds(below(20)));
  reload(replica);
}

void Chaos::reload(size_t replica) {
  ++world_.drains;
  expect("reload", world_.model.async_reload_replica(replica, use_error()).get());
}

void Chaos::load_another() {
  const Passage passage{.beginning = below(Script::kBeginnings), .loops = 2};
  GenerateRequest request{.tokens = world_.script.tokens(passage),
                          .config = world_.script.config(passage)};
  request.config.max_tokens = 8;
  const Model other = engine_.load(path_, options_);
  auto running = other.async_generate(request, use_error());
  const ShutdownMode mode = below(2) == 0 ? ShutdownMode::drain : ShutdownMode::cancel;
  expect("unload", other.async_unload(mode, use_error()).get());
  const error_code error = running.get();
  if (error && error != errc::shutdown) expect("the other model's request", error);
  if (other.memory().total() != 0) world_.ledger.problem("unloaded, and it holds memory");
}

void Chaos::expect(const char* what, const error_code& error) {
  world_.ledger.sent();
  world_.ledger.completed(what, error);
  if (error) world_.ledger.problem(std::string(what) + ": " + error.message());
}

}  // namespace tinyloop::soak
