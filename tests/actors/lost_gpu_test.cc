// A GPU that meets an error it does not recover from. Nothing can use it in this process any more,
// nor, with some drivers, any other GPU: the test has a process of its own.
#include "tests/actors/replicas_fixture.h"

namespace tinyloop::testing {
namespace {

// The error is a real one: a kernel that reads where there is no memory.
class LostGpuTest : public ReplicasTest {
 protected:
  // Of requests that end, as they must, well or with the replica.
  int32_t failures(std::vector<std::future<Outcome<GenerateResult>>> futures) {
    int32_t failed = 0;
    for (auto& future : futures) {
      const error_code end = error_of(future);
      EXPECT_TRUE(!end || end == errc::replica_failed) << end.message();
      failed += bool(end);
    }
    return failed;
  }
};

TEST_F(LostGpuTest, LeavesTheProcessWhole) {
  if (!on_cuda() || cuda_device_count() < 2) GTEST_SKIP() << "no CUDA device: needs two";
  EngineOn engine([this](const ModelOptions& given) {
    ModelOptions options = given;
    options.device = given.device == "a" ? "cuda:0" : "cuda:1";
    return test_backends(devices_.at(given.device))(options);
  });
  auto [error, model] = engine.load(options_);
  ASSERT_FALSE(error) << error.message();
  std::vector<std::future<Outcome<GenerateResult>>> futures;
  {
    const Pause first(model, 0), second(model, 1);
    futures = start(model, 200);
    devices_["b"]->breaks = true;
  }
  EXPECT_GE(failures(std::move(futures)), 100);
  EXPECT_EQ(model.health().replicas[1].state, ReplicaState::failed);
  EXPECT_NE(model.health().replicas[1].last_error, "");
  const int32_t failed = failures(start(model, 10));
  const bool takes_all = model.health().replicas[0].state == ReplicaState::failed;
  std::printf("the other GPU %s\n", takes_all ? "is lost with it" : "goes on");
  EXPECT_TRUE(takes_all || failed == 0);
  const error_code again = model.async_reload_replica(1, use_error()).get();
  EXPECT_TRUE(again == errc::replica_failed) << again.message();
  EXPECT_FALSE(model.async_unload(ShutdownMode::drain, use_error()).get());
  EXPECT_EQ(model.memory().total(), 0u);
}

}  // namespace
}  // namespace tinyloop::testing
