// Drains: whom they wait for, and whom they let in.
#include <atomic>
#include <chrono>
#include <optional>

#include "actors/incoming.h"
#include "tests/actors/replicas_fixture.h"

namespace tinyloop::testing {
namespace {

using namespace std::chrono_literals;

class DrainTest : public ReplicasTest {
 protected:
  static actors::Replica& replica(const Model& model, size_t index) {
    return model.state()->replica(index);
  }
};

// Whoever is let in while the thread is about to hear of the drain is waited for.
TEST_F(DrainTest, WaitsForThoseOnTheirWay) {
  const Model model = load();
  std::promise<actors::Incoming> let_in;
  std::future<error_code> drained;
  {
    const Pause pause(model, 0);
    visit_replica(model, [&](engine::BatchEngine&) {
      let_in.set_value(actors::Incoming(replica(model, 0)));
    });
    drained = model.async_drain_replica(0, use_error());
  }
  std::optional way = let_in.get_future().get();
  EXPECT_TRUE(way->is_let_in());
  EXPECT_EQ(drained.wait_for(100ms), std::future_status::timeout);
  EXPECT_EQ(model.health().replicas[0].state, ReplicaState::draining);
  way.reset();
  EXPECT_FALSE(drained.get());
  EXPECT_EQ(model.health().replicas[0].state, ReplicaState::drained);
}

// The last of them may turn away at the same moment.
TEST_F(DrainTest, WaitsNotForThoseWhoHaveTurnedAway) {
  const Model model = load();
  auto way = std::make_shared<std::optional<actors::Incoming>>(replica(model, 0));
  std::future<error_code> drained;
  {
    const Pause pause(model, 0);
    visit_replica(model, [way = std::move(way)](engine::BatchEngine&) { way->reset(); });
    drained = model.async_drain_replica(0, use_error());
  }
  EXPECT_FALSE(drained.get());
}

// Callers who come without end do not keep it open.
TEST_F(DrainTest, EndsUnderASteadyLoad) {
  options_.device = "a";
  const Model model = load();
  std::atomic<int> served{0};
  std::vector<std::thread> callers;
  std::vector<error_code> ends(4);
  for (error_code& end : ends) {
    callers.emplace_back([&] {
      while (!(end = model.async_generate(waiting(1), use_error()).get())) ++served;
    });
  }
  while (served < 20) std::this_thread::yield();
  EXPECT_FALSE(model.async_drain_replica(0, use_error()).get());
  for (std::thread& caller : callers) caller.join();
  for (const error_code& end : ends) EXPECT_TRUE(end == errc::shutdown) << end.message();
}

}  // namespace
}  // namespace tinyloop::testing
