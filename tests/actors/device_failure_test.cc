// A device that breaks down under a replica: its requests are told, and the process, the engine and
// the other models go on.
#include <gtest/gtest.h>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

// What the device's error says of itself.
struct DeviceError {
  errc code;
  const char* name;
};
void PrintTo(const DeviceError& error, std::ostream* out) {
  *out << error.name;
}

class DeviceFailure : public ::testing::TestWithParam<DeviceError> {
 protected:
  // What a healthy model makes of request(6).
  std::vector<int32_t> expected_ = ServedModel().generate(request(6)).tokens;
  std::shared_ptr<TestDevice> device_ = std::make_shared<TestDevice>();
  EngineOn engine_{test_backends(device_)};

  Model load() {
    auto [error, model] = engine_.load();
    EXPECT_FALSE(error) << error.message();
    return model;
  }
};

// For the replica's requests it is always the same.
TEST_P(DeviceFailure, InAStepIsTheReplicasEndAndNoMore) {
  ModelOptions options = small_options();
  options.max_sequences = 2;
  const Model other = load();
  auto [error, model] = engine_.load(options);
  ASSERT_FALSE(error) << error.message();
  std::vector<std::future<Outcome<GenerateResult>>> futures;
  {
    const Pause pause(model);
    device_->error = {GetParam().code, "cudaStreamSynchronize: gone"};
    device_->fail_in = 6;  // some tokens have been made; one request still waits in the queue
    for (int32_t seed : {1, 2, 3}) {
      futures.push_back(model.async_generate(request(20, seed), use_outcome()));
    }
  }
  for (auto& future : futures) {
    const error_code told = error_of(future);
    EXPECT_TRUE(told == errc::replica_failed) << told.message();
    EXPECT_NE(told.message().find("cudaStreamSynchronize: gone"), std::string::npos)
        << told.message();
  }
  const HealthReport::Replica health = model.health().replicas.at(0);
  EXPECT_EQ(health.state, ReplicaState::failed);
  EXPECT_FALSE(health.can_serve);
  EXPECT_EQ(health.failures, 1u);
  EXPECT_NE(health.last_error.find("cudaStreamSynchronize: gone"), std::string::npos);
  EXPECT_EQ(model.statistics().completed_failed, 3u);
  auto late = model.async_generate(request(2), use_outcome());
  EXPECT_TRUE(error_of(late) == errc::replica_failed);
  EXPECT_EQ(model.memory().pages_used, 0u);
  model.async_unload(ShutdownMode::drain, asio::use_future).get();
  EXPECT_EQ(model.memory().total(), 0u);

  device_->fail_in = 0;
  for (const Model& healthy : {other, load()}) {
    EXPECT_EQ(healthy.async_generate(request(6), asio::use_future).get().tokens, expected_);
  }
}

INSTANTIATE_TEST_SUITE_P(Codes, DeviceFailure,
                         ::testing::Values(DeviceError{errc::replica_failed, "ReplicaFailed"},
                                           DeviceError{errc::out_of_memory, "OutOfMemory"},
                                           DeviceError{errc::internal, "Internal"}),
                         [](const auto& test) { return std::string(test.param.name); });

// The device cannot even be set up.
TEST(DeviceFailureAtLoad, IsTheLoadsErrorAndTheNextLoadIsFine) {
  bool broken = true;
  const auto healthy = test_backends(std::make_shared<TestDevice>());
  EngineOn engine([&](const ModelOptions& options) {
    if (!broken) return healthy(options);
    return base::Result<std::unique_ptr<kernels::Backend>>(
        base::Error{errc::replica_failed, "cudaSetDevice: the device is lost"});
  });
  const error_code error = engine.load().first;
  EXPECT_TRUE(error == errc::replica_failed);
  EXPECT_NE(error.message().find("cudaSetDevice: the device is lost"), std::string::npos)
      << error.message();
  broken = false;
  const auto [none, model] = engine.load();
  ASSERT_FALSE(none) << none.message();
  EXPECT_EQ(model.async_generate(request(6), asio::use_future).get().tokens,
            ServedModel().generate(request(6)).tokens);
}

}  // namespace
}  // namespace tinyloop::testing
