// What tests of models of several replicas share.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "tests/actors/handles.h"

namespace tinyloop::testing {

namespace asio = boost::asio;

class ReplicasTest : public ::testing::Test {
 protected:
  ReplicasTest() { options_.device = "a,b"; }

  Model load() {
    auto [error, model] = engine_.load(options_);
    EXPECT_FALSE(error) << error.message();
    return model;
  }

  // The devices that the tests' replicas run on, by name.
  std::map<std::string, std::shared_ptr<TestDevice>> devices_ = {
      {"a", std::make_shared<TestDevice>()}, {"b", std::make_shared<TestDevice>()}};
  ModelOptions options_ = small_options();
  EngineOn engine_{[this](const ModelOptions& given) {
    ModelOptions options = given;
    options.device = test_device();
    return test_backends(devices_.at(given.device))(options);
  }};
};

// As on a model of one replica.
inline const std::vector<int32_t>& expected(int32_t seed) {
  static std::map<int32_t, std::vector<int32_t>> known;
  static const ServedModel alone;
  auto& tokens = known[seed];
  if (tokens.empty()) tokens = alone.generate(request(12, seed)).tokens;
  return tokens;
}

inline GenerateRequest waiting(int32_t seed) {
  GenerateRequest what = request(12, seed);
  what.when_full = WhenFull::wait;
  return what;
}

inline std::vector<std::future<Outcome<GenerateResult>>> start(const Model& model, int32_t count) {
  std::vector<std::future<Outcome<GenerateResult>>> futures;
  for (int32_t i = 0; i < count; ++i) {
    futures.push_back(model.async_generate(waiting(i % 20), use_outcome()));
  }
  return futures;
}

inline void kill(const Model& model, size_t replica) {
  visit_replica(
      model,
      [](engine::BatchEngine&) {
        throw base::Failure(errc::replica_failed, "cudaStreamSynchronize: gone");
      },
      replica);
  while (model.health().replicas[replica].state != ReplicaState::failed) std::this_thread::yield();
}

inline uint64_t accepted(const Model& model, size_t replica) {
  return model.metrics()[replica].statistics.accepted;
}

}  // namespace tinyloop::testing
