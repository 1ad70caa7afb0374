// Several replicas behind one model: who gets which request, and what becomes of them when one of
// them fails, is drained, or is loaded again.
#include <array>
#include <filesystem>
#include <numeric>

#include "tests/actors/replicas_fixture.h"

namespace tinyloop::testing {
namespace {

TEST_F(ReplicasTest, ShareTheRequestsAndGiveTheSameBits) {
  const Model model = load();
  ASSERT_EQ(model.health().replicas.size(), 2u);
  for (const auto& replica : model.health().replicas) EXPECT_TRUE(replica.can_serve);
  auto futures = start(model, 200);
  for (int32_t i = 0; i < 200; ++i) {
    const auto outcome = futures[size_t(i)].get();
    EXPECT_FALSE(outcome.error) << outcome.error.message();
    EXPECT_EQ(outcome.tokens, expected(i % 20));
  }
  for (const size_t replica : {0u, 1u}) {
    EXPECT_EQ(model.metrics()[replica].replica, replica);
    EXPECT_GT(accepted(model, replica), 60u);
  }
  EXPECT_EQ(model.statistics().accepted, 200u);
  EXPECT_EQ(model.statistics().completed_ok, 200u);
  const MemoryReport both = model.memory();
  EXPECT_EQ(both.weights, 2 * ServedModel().model.memory().weights);
  EXPECT_EQ(both.cache_reserved, 0u);
  EXPECT_EQ(model.async_trim(asio::use_future).get(), both.page_bytes_free);
  EXPECT_EQ(model.memory().arena, 0u);
}

TEST_F(ReplicasTest, ARequestGoesWhereFewestAre) {
  const Model model = load();
  auto busy = std::make_unique<Pause>(model, 0);
  auto futures = start(model, 1);  // to either
  std::vector<std::future<Outcome<GenerateResult>>> rest;
  while (model.health().replicas[0].queued == 0) rest.push_back(std::move(start(model, 1)[0]));
  const uint64_t before = accepted(model, 1);
  for (int32_t i = 0; i < 20; ++i) EXPECT_FALSE(error_of(start(model, 1)[0]));
  EXPECT_EQ(accepted(model, 1), before + 20);
  busy.reset();
  for (auto* group : {&futures, &rest}) {
    for (auto& future : *group) EXPECT_FALSE(error_of(future));
  }
}

TEST_F(ReplicasTest, OneKilledUnderLoadFailsItsRequestsAndServesAgain) {
  const Model model = load();
  std::vector<std::future<Outcome<GenerateResult>>> futures;
  {
    const Pause first(model, 0), second(model, 1);
    futures = start(model, 200);
    EXPECT_EQ(model.health().replicas[0].queued, 100u);
    EXPECT_EQ(model.health().replicas[1].queued, 100u);
    devices_["b"]->fail_in = 20;
  }
  int32_t failed = 0;
  for (int32_t i = 0; i < 200; ++i) {
    const auto outcome = futures[size_t(i)].get();
    if (outcome.error) {
      ++failed;
      EXPECT_TRUE(outcome.error == errc::replica_failed) << outcome.error.message();
    } else {
      EXPECT_EQ(outcome.tokens, expected(i % 20));
    }
  }
  EXPECT_GT(failed, 80);
  EXPECT_LE(failed, 100);
  EXPECT_EQ(model.metrics()[0].statistics.completed_ok, 100u);
  EXPECT_EQ(model.metrics()[1].statistics.completed_failed, uint64_t(failed));
  EXPECT_EQ(model.health().replicas[1].state, ReplicaState::failed);
  // All that comes now goes to the other one.
  for (auto& future : start(model, 10)) EXPECT_FALSE(error_of(future));
  EXPECT_EQ(accepted(model, 0), 110u);

  devices_["b"]->most_head_dim = 8;  // another device is there now, and it will not do
  EXPECT_TRUE(model.async_reload_replica(1, use_error()).get() == errc::unsupported_model);
  EXPECT_EQ(model.health().replicas[1].state, ReplicaState::failed);
  EXPECT_NE(model.health().replicas[1].last_error.find("head_dim"), std::string::npos);
  devices_["b"]->most_head_dim = 1024;
  devices_["b"]->fail_in = 0;
  EXPECT_FALSE(model.async_reload_replica(1, use_error()).get());
  EXPECT_EQ(model.health().replicas[1].state, ReplicaState::serving);
  const uint64_t before = accepted(model, 1);
  for (auto& future : start(model, 40)) EXPECT_FALSE(error_of(future));
  EXPECT_GT(accepted(model, 1), before);
  EXPECT_EQ(model.metrics()[1].statistics.completed_ok, accepted(model, 1) - uint64_t(failed));
  model.async_unload(ShutdownMode::drain, asio::use_future).get();
  EXPECT_EQ(model.memory().total(), 0u);
}

TEST_F(ReplicasTest, AHandleLivesAndDiesWithItsReplica) {
  const Model model = load();
  std::vector<PrefixCache> handles;
  for (int32_t i = 0; i < 4; ++i) {
    handles.push_back(build_cache(model, prefix_request(20, 3, 0, i)));
  }
  // Each is used where it is.
  for (int32_t i = 0; i < 4; ++i) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      EXPECT_FALSE(model.async_generate(behind(handles[size_t(i)], 4), use_error()).get());
    }
  }
  const Model other = load();
  EXPECT_TRUE(other.async_generate(behind(handles[0], 4), use_error()).get() == errc::wrong_model);

  kill(model, 1);
  int32_t lost = 0;
  for (const PrefixCache& handle : handles) {
    const error_code error = model.async_generate(behind(handle, 4), use_error()).get();
    if (error) {
      EXPECT_TRUE(error == errc::handle_lost) << error.message();
      ++lost;
    }
  }
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, 4);
  EXPECT_FALSE(model.async_reload_replica(1, use_error()).get());
  // The new prefixes are not taken for the old ones.
  std::vector<PrefixCache> fresh;
  for (int32_t i = 4; i < 10; ++i) {
    fresh.push_back(build_cache(model, prefix_request(20, 3, 0, i)));
  }
  int32_t still_lost = 0;
  for (const PrefixCache& handle : handles) {
    const error_code error = model.async_generate(behind(handle, 4), use_error()).get();
    EXPECT_TRUE(!error || error == errc::handle_lost);
    still_lost += bool(error);
  }
  EXPECT_EQ(still_lost, lost);
  for (const PrefixCache& handle : handles) release(model, handle);
  for (const PrefixCache& handle : fresh) {
    EXPECT_FALSE(model.async_generate(behind(handle, 4), use_error()).get());
  }
}

TEST_F(ReplicasTest, ADrainFinishesWhatWasAccepted) {
  const Model model = load();
  const PrefixCache handles[] = {build_cache(model, prefix_request(20)),
                                 build_cache(model, prefix_request(21))};
  std::vector<std::future<Outcome<GenerateResult>>> futures;
  std::future<error_code> drained, refused;
  {
    const Pause first(model, 0), second(model, 1);
    futures = start(model, 100);
    drained = model.async_drain_replica(0, use_error());
    refused = model.async_drain_replica(0, use_error());
  }
  EXPECT_FALSE(drained.get());
  EXPECT_TRUE(refused.get() == errc::overloaded);
  EXPECT_EQ(model.health().replicas[0].state, ReplicaState::drained);
  EXPECT_EQ(model.metrics()[0].statistics.completed_ok, 51u);
  EXPECT_EQ(model.metrics()[0].memory.total(), 0u);
  EXPECT_EQ(model.metrics()[0].active + model.metrics()[0].queued, 0u);
  for (auto& future : futures) EXPECT_FALSE(error_of(future));
  const uint64_t before = accepted(model, 1);
  for (auto& future : start(model, 10)) EXPECT_FALSE(error_of(future));
  EXPECT_EQ(accepted(model, 1), before + 10);
  EXPECT_FALSE(model.async_drain_replica(0, use_error()).get());  // it is
  int lost = 0;
  for (const PrefixCache& handle : handles) {
    const error_code error = model.async_generate(behind(handle, 4), use_error()).get();
    EXPECT_TRUE(!error || error == errc::handle_lost) << error.message();
    lost += bool(error);
  }
  EXPECT_EQ(lost, 1);
  EXPECT_FALSE(model.async_reload_replica(0, use_error()).get());
  for (auto& future : start(model, 40)) EXPECT_FALSE(error_of(future));
  EXPECT_GT(accepted(model, 0), 51u);
}

TEST_F(ReplicasTest, TheOnlyOneCanBeDrainedAndLoadedAgain) {
  options_.device = "a";
  const Model model = load();
  EXPECT_FALSE(model.async_drain_replica(0, use_error()).get());
  const error_code error = error_of(start(model, 1)[0]);
  EXPECT_TRUE(error == errc::shutdown);
  EXPECT_EQ(error.message(), "shutting down: the replica has been drained");
  EXPECT_EQ(model.async_trim(use_error()).get(), make_error_condition(errc::shutdown));
  EXPECT_FALSE(model.async_reload_replica(0, use_error()).get());
  EXPECT_FALSE(error_of(start(model, 1)[0]));
}

TEST_F(ReplicasTest, AReloadUnderLoadLosesNothing) {
  const Model model = load();
  const std::vector<int32_t> tokens = expected(3);
  std::atomic<bool> done{false};
  std::atomic<int> ended{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      while (!done) {
        const auto outcome = model.async_generate(waiting(3), use_outcome()).get();
        EXPECT_FALSE(outcome.error) << outcome.error.message();
        EXPECT_EQ(outcome.tokens, tokens);
        ++ended;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const int before = ended;
    EXPECT_FALSE(model.async_reload_replica(size_t(i % 2), use_error()).get());
    while (ended == before) std::this_thread::yield();
  }
  done = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(model.statistics().completed_ok, uint64_t(ended));
  EXPECT_EQ(model.statistics().rejected, 0u);
}

TEST_F(ReplicasTest, AReloadFindsTheSameModelOrFails) {
  const RandomModel own = write_random_model();
  auto [error, model] = engine_.load(options_, own.path());
  ASSERT_FALSE(error) << error.message();
  const std::string kept = own.path() + ".kept";
  std::filesystem::copy_file(own.path(), kept);
  const RandomModel other = write_random_model({.vocab = 320});
  std::filesystem::copy_file(other.path(), own.path(),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(model.async_reload_replica(0, use_error()).get() == errc::bad_model_file);
  std::filesystem::remove(own.path());
  EXPECT_TRUE(model.async_reload_replica(0, use_error()).get() == errc::io_error);
  EXPECT_EQ(model.health().replicas[0].state, ReplicaState::failed);
  EXPECT_EQ(model.metrics()[0].memory.total(), 0u);
  EXPECT_FALSE(model.async_drain_replica(0, use_error()).get());
  EXPECT_EQ(model.health().replicas[0].state, ReplicaState::drained);
  for (auto& future : start(model, 4)) EXPECT_FALSE(error_of(future));  // by the other one
  std::filesystem::rename(kept, own.path());
  EXPECT_FALSE(model.async_reload_replica(0, use_error()).get());
  EXPECT_EQ(model.health().replicas[0].state, ReplicaState::serving);
}

TEST_F(ReplicasTest, AModelEndsWithAllOfThem) {
  for (const ShutdownMode mode : {ShutdownMode::drain, ShutdownMode::cancel}) {
    const Model model = load();
    const PrefixCache handle = build_cache(model, prefix_request(20));
    kill(model, 1);
    EXPECT_FALSE(model.async_reload_replica(1, use_error()).get());
    EXPECT_FALSE(model.async_drain_replica(1, use_error()).get());
    auto futures = start(model, 20);
    auto maintained = model.async_reload_replica(0, use_error());
    auto unloaded = model.async_unload(mode, use_error());
    EXPECT_FALSE(unloaded.get());
    const error_code reload = maintained.get();
    EXPECT_TRUE(!reload || reload == errc::shutdown || reload == errc::model_closed)
        << reload.message();
    for (auto& future : futures) {
      const auto outcome = future.get();
      if (mode == ShutdownMode::drain) {
        EXPECT_FALSE(outcome.error) << outcome.error.message();
      } else {
        EXPECT_TRUE(!outcome.error || outcome.error == errc::shutdown);
      }
    }
    EXPECT_EQ(model.memory().total(), 0u);
    for (const auto& replica : model.health().replicas) {
      EXPECT_EQ(replica.state, ReplicaState::closed);
    }
    EXPECT_TRUE(model.async_reload_replica(0, use_error()).get() == errc::model_closed);
  }
}

TEST_F(ReplicasTest, ALoadIsOfAllOrNone) {
  devices_["b"]->most_head_dim = 8;  // less than the model's
  const auto [error, model] = engine_.load(options_);
  EXPECT_TRUE(error == errc::unsupported_model) << error.message();
  EXPECT_FALSE(model);
}

TEST_F(ReplicasTest, NumbersAndNamesAreChecked) {
  const Model model = load();
  EXPECT_EQ(model.async_drain_replica(2, use_error()).get().message(),
            "invalid argument: replica: 2, allowed: 0 to 1");
  EXPECT_TRUE(Model().async_reload_replica(0, use_error()).get() == errc::model_closed);
  options_.replicas = 65;
  EXPECT_EQ(engine_.load(options_).first.message(),
            "invalid argument: replicas: 65, allowed: 0 to 64");
  options_.replicas = 3;
  EXPECT_EQ(load().health().replicas.size(), 3u);
  options_.device = "a,,b";
  EXPECT_EQ(engine_.load(options_).first.message(),
            "invalid argument: device: \"a,,b\", allowed: names separated by commas");
}

// ---- Pools -------------------------------------------------------------------------------------

TEST_F(ReplicasTest, APoolIsInOneReplicaAndMovesWhenThatOneFails) {
  const Model model = load();
  const PrefixPool pool({.capacity = 4});
  const PrefixRequest prefix = prefix_request(20);
  const int32_t id = model.async_register_prefix(pool, prefix, asio::use_future).get();
  EXPECT_EQ(model.async_register_prefix(pool, prefix, asio::use_future).get(), id);
  EXPECT_TRUE(model.async_prefix_info(pool, id, asio::use_future).get().live);
  const size_t home = accepted(model, 0) > 0 ? 0 : 1;
  GenerateRequest what = request(4);
  what.config.loops = prefix.loops;
  what.tokens.insert(what.tokens.begin(), prefix.tokens.begin(), prefix.tokens.end());
  what.pool = pool;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(model.async_generate(what, use_error()).get());
  EXPECT_EQ(pool.statistics().hits, 5u);
  EXPECT_EQ(accepted(model, 1 - home), 0u);

  kill(model, home);
  while (pool.statistics().entries > 0) std::this_thread::yield();
  EXPECT_FALSE(model.async_generate(what, use_error()).get());  // as if there were no pool
  EXPECT_EQ(pool.statistics().misses, 1u);
  EXPECT_GT(model.async_register_prefix(pool, prefix, asio::use_future).get(), 0);
  EXPECT_FALSE(model.async_generate(what, use_error()).get());
  EXPECT_EQ(pool.statistics().hits, 6u);
  EXPECT_EQ(pool.statistics().entries, 1u);
  EXPECT_TRUE(load().async_generate(what, use_error()).get() == errc::wrong_model);
}

// One registers while the other does: both prefixes are in one replica, and stay.
TEST_F(ReplicasTest, TwoFirstRegistrationsShareAReplica) {
  const Model model = load();
  for (int round = 0; round < 50; ++round) {
    const PrefixPool pool({.capacity = 4});
    std::vector<std::thread> callers;
    std::array<int32_t, 2> ids{};
    for (size_t i = 0; i < ids.size(); ++i) {
      callers.emplace_back([&, i] {
        const auto what = prefix_request(20, 3, 0, int32_t(i));
        ids[i] = model.async_register_prefix(pool, what, asio::use_future).get();
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(pool.statistics().entries, 2u);
    for (const int32_t id : ids) {
      EXPECT_TRUE(model.async_prefix_info(pool, id, asio::use_future).get().live);
    }
  }
}

TEST_F(ReplicasTest, AnAutomaticPoolSendsAPromptWhereItsBeginningIs) {
  const Model model = load();
  const PrefixPool pool({.capacity = 16, .automatic = true});
  const auto turn = [&](int32_t conversation, int32_t length) {
    GenerateRequest what = request(2);
    what.tokens = prefix_request(length, 3, 0, conversation).tokens;
    what.pool = pool;
    return model.async_generate(what, use_error()).get();
  };
  for (int32_t conversation = 0; conversation < 6; ++conversation) {
    EXPECT_FALSE(turn(conversation, 20));
  }
  EXPECT_EQ(pool.statistics().misses, 6u);
  EXPECT_GT(accepted(model, 0), 0u);
  EXPECT_GT(accepted(model, 1), 0u);
  for (int32_t length = 40; length <= 100; length += 20) {
    for (int32_t conversation = 0; conversation < 6; ++conversation) {
      EXPECT_FALSE(turn(conversation, length));
    }
  }
  EXPECT_EQ(pool.statistics().misses, 6u);
  EXPECT_EQ(pool.statistics().hits, 24u);
}

TEST_F(ReplicasTest, AnAutomaticPoolGoesElsewhereWhileItsReplicaIsFull) {
  options_.max_sequences = 2;
  const Model model = load();
  const PrefixPool pool({.capacity = 16, .automatic = true});
  GenerateRequest what = request(2);
  what.tokens = prefix_request(40).tokens;
  what.pool = pool;
  what.when_full = WhenFull::wait;
  EXPECT_FALSE(model.async_generate(what, use_error()).get());
  const size_t holder = accepted(model, 0) > 0 ? 0 : 1;
  {
    const Pause busy(model, holder);
    std::vector<std::future<error_code>> queued;
    for (int i = 0; i < 2; ++i) queued.push_back(model.async_generate(what, use_error()));
    EXPECT_EQ(model.health().replicas[holder].queued, 2u);
    EXPECT_FALSE(model.async_generate(what, use_error()).get());
    EXPECT_EQ(accepted(model, 1 - holder), 1u);
  }
  EXPECT_GE(pool.statistics().entries, 2u);
}

}  // namespace
}  // namespace tinyloop::testing
