// What an engine says, and to whom.
#include <gtest/gtest.h>

#include <mutex>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

// Outlives the engine that writes into it.
class Lines {
 public:
  EngineOptions at(LogLevel level) {
    EngineOptions options;
    options.log_level = level;
    options.log = [this](LogLevel of, std::string_view text) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(of, text);
    };
    return options;
  }
  size_t count() const {
    const std::lock_guard lock(mutex_);
    return lines_.size();
  }
  // How many of this level have all of these words.
  size_t count(LogLevel level, const std::vector<std::string>& words) const {
    const std::lock_guard lock(mutex_);
    return size_t(std::count_if(lines_.begin(), lines_.end(), [&](const auto& line) {
      return line.first == level &&
             std::all_of(words.begin(), words.end(), [&](const std::string& word) {
               return line.second.find(word) != std::string::npos;
             });
    }));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> lines_;
};

// A model's life with a refusal of each kind, a failure, and a failed replica.
void live(EngineOptions engine_options) {
  ModelOptions options = small_options();
  options.cache_budget_bytes = bytes_of(request(40));
  ServedModel served(options, std::move(engine_options));
  EXPECT_THROW(served.engine.load("/no/such/file"), boost::system::system_error);
  served.generate(request(3));
  const auto error = [&](const GenerateRequest& what) {
    return served.model.async_generate(what, use_error()).get();
  };
  EXPECT_TRUE(error(request(0)) == errc::invalid_argument);  // on this thread
  EXPECT_TRUE(error(request(200)) == errc::out_of_memory);   // on the replica's
  GenerateRequest late = request(3);
  late.config.deadline = std::chrono::steady_clock::now() - std::chrono::hours(1);
  EXPECT_TRUE(error(late) == errc::deadline_exceeded);
  StepGate gate(served.model);
  auto active = served.model.async_generate(request(20), use_error());
  gate.run(1);
  visit_replica(served.model, [](engine::BatchEngine&) {
    throw base::Failure(errc::internal, "check failed at x.cc:1");
  });
  gate.open();
  EXPECT_TRUE(active.get() == errc::replica_failed);
  served.model.async_unload(ShutdownMode::drain, asio::use_future).get();
}

TEST(Log, DebugHasAReasonForEachRequestThatWasRefusedOrFailed) {
  Lines lines;
  live(lines.at(LogLevel::debug));
  const std::string path = small_model().path();
  const auto once = [&](LogLevel level, std::vector<std::string> words) {
    words.push_back(path + ": ");
    EXPECT_EQ(lines.count(level, words), 1u) << words.front();
  };
  once(LogLevel::info, {"loaded on " + std::string(test_device()), " bytes, in ", " s"});
  once(LogLevel::debug, {"request refused: invalid argument: max_tokens: 0"});
  once(LogLevel::debug, {"request refused: out of memory: the request needs"});
  once(LogLevel::debug, {"request failed: deadline exceeded"});
  once(LogLevel::error, {"replica failed: ", "x.cc:1"});
  once(LogLevel::debug, {"request failed: replica failed: ", "x.cc:1"});
  once(LogLevel::info, {"unloaded, 3 requests in "});
  EXPECT_EQ(lines.count(LogLevel::debug, {"/no/such/file: load: /no/such/file: cannot open"}), 1u);
  EXPECT_EQ(lines.count(), 8u);
}

TEST(Log, TheLevelHoldsForASinkOfTheOwners) {
  for (const auto& [level, count] :
       {std::pair{LogLevel::info, 3u}, {LogLevel::warning, 1u}, {LogLevel::error, 1u}}) {
    Lines lines;
    live(lines.at(level));
    EXPECT_EQ(lines.count(), count);
    EXPECT_EQ(lines.count(LogLevel::error, {"replica failed"}), 1u);
  }
}

TEST(Log, WarningsByDefault) {
  EXPECT_EQ(EngineOptions().log_level, LogLevel::warning);
  ModelOptions options = small_options();
  options.max_seq_len = 400;  // the file was trained for 256
  Lines lines;
  ServedModel served(options, lines.at(EngineOptions().log_level));
  served.generate(request(300));
  EXPECT_EQ(lines.count(LogLevel::warning, {"trained context of 256"}), 1u);
  EXPECT_EQ(lines.count(), 1u);
  Lines errors;
  ServedModel other(options, errors.at(LogLevel::error));
  other.generate(request(300));
  EXPECT_EQ(errors.count(), 0u);
}

TEST(Log, NothingIsSaidOfWhatGoesWell) {
  Lines lines;
  ServedModel served(small_options(), lines.at(LogLevel::debug));
  const size_t before = lines.count();
  for (int32_t seed : {1, 2, 3}) served.generate(request(20, seed));
  EXPECT_EQ(lines.count(), before);
}

TEST(Log, AMessageBelowTheLevelIsNotMade) {
  actors::EngineContext context;
  std::vector<std::string> lines;
  context.log = [&](LogLevel, std::string_view text) { lines.emplace_back(text); };
  int made = 0;
  const auto make = [&] { return "message " + std::to_string(++made); };
  context.say(LogLevel::debug, make);
  context.say(LogLevel::info, make);
  EXPECT_EQ(made, 0);
  context.say(LogLevel::warning, make);
  context.say(LogLevel::error, [&]() -> std::string { throw std::bad_alloc(); });
  EXPECT_EQ(lines, std::vector<std::string>{"message 1"});
}

// Two engines of one process, each with its own level.
TEST(Log, StderrHasALevelForEachEngine) {
  const auto said = [](LogLevel level) {
    ::testing::internal::CaptureStderr();
    {
      EngineOptions options, quiet_one;
      options.log_level = level;
      const ServedModel served(small_options(), options), other(small_options(), quiet_one);
    }
    const std::string text = ::testing::internal::GetCapturedStderr();
    size_t lines = 0;
    for (size_t at = 0; (at = text.find(": loaded on ", at)) != text.npos; ++at) ++lines;
    return lines;
  };
  EXPECT_EQ(said(LogLevel::warning), 0u);
  EXPECT_EQ(said(LogLevel::info), 1u);
}

}  // namespace
}  // namespace tinyloop::testing
