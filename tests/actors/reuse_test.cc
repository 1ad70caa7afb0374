// PrefixCache and ResumeHandle as callers use them: results, work saved, and every refusal.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <set>
#include <thread>

#include "tests/actors/handles.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;
using std::chrono::hours;
using std::chrono::steady_clock;

GenerateRequest greedy(GenerateRequest what) {
  what.config.logprobs = 4;
  return what;
}

GenerateRequest sampled(GenerateRequest what) {
  what = greedy(std::move(what));
  what.config.temperature = 0.9f;
  what.config.top_p = 0.95f;
  what.config.repetition_penalty = 1.2f;
  what.config.seed = 77;
  return what;
}

// ---- Results -----------------------------------------------------------------------------------

TEST(Reuse, APrefixIsContinuedLikeThePlainRequest) {
  const ServedModel served;
  for (const int32_t window : {0, 20}) {
    for (const int32_t positions : {1, 15, 16, 17, 64, 90}) {
      const PrefixCache prefix = build_cache(served.model, prefix_request(positions, 3, window));
      for (const size_t further : {size_t{0}, size_t{5}}) {
        SCOPED_TRACE(std::to_string(positions) + " + " + std::to_string(further) + ", window " +
                     std::to_string(window));
        for (const auto& what :
             {greedy(behind(prefix, 24, further)), sampled(behind(prefix, 24, further))}) {
          expect_same(served.generate(what), served.generate(without_handle(what)));
        }
      }
    }
  }
}

TEST(Reuse, AResumeIsLikeThePlainRequest) {
  const ServedModel served;
  for (const int32_t window : {0, 20}) {
    for (const int32_t positions : {1, 16, 37, 90}) {
      const auto handle = build_resume(served.model, prefix_request(positions, 2, window), 7);
      const ResumeHandle deeper = deepen(served.model, handle, 4);
      const ResumeHandle deepest = deepen(served.model, deeper, 7);
      for (const ResumeHandle& from : {handle, deeper, deepest}) {
        for (const int32_t loops : {from.info().loops, 7}) {
          for (const size_t further : {size_t{0}, size_t{5}}) {
            SCOPED_TRACE(std::to_string(positions) + " + " + std::to_string(further) + ", window " +
                         std::to_string(window) + ", " + std::to_string(from.info().loops) +
                         " to " + std::to_string(loops));
            const auto what = sampled(resumed(from, loops, 20, further));
            expect_same(served.generate(what), served.generate(without_handle(what)));
          }
        }
      }
    }
  }
}

TEST(Reuse, DepthsThatAreNotSaidAreTheHandlesAndTheFiles) {
  const ServedModel served;  // the file's default: 4
  const PrefixCache prefix = build_cache(served.model, prefix_request(20, 2));
  EXPECT_EQ(served.generate(behind(prefix, 2)).loops, 2);
  const ResumeHandle handle = build_resume(served.model, prefix_request(20, 2), 6);
  GenerateRequest what = resumed(handle, 4, 8);
  const GenerateResult at_four = served.generate(what);
  what.resume_loops.reset();
  expect_same(served.generate(what), at_four);
  what.config.loops = 4;
  expect_same(served.generate(what), at_four);
  // What follows may be computed at less than the prefix.
  what.resume_loops = 6;
  EXPECT_EQ(served.generate(what).loops, 4);
  what.config.loops = 1;
  EXPECT_EQ(served.generate(what).loops, 1);
}

TEST(Reuse, StreamsAndChunksComeAsFromThePlainRequest) {
  const ServedModel served;
  const PrefixCache prefix = build_cache(served.model, prefix_request(37));
  const ResumeHandle handle = build_resume(served.model, prefix_request(37), 6);
  for (const auto& what : {sampled(behind(prefix, 30)), sampled(resumed(handle, 5, 30))}) {
    const GenerateResult expected = served.generate(without_handle(what));
    std::vector<int32_t> tokens(expected.tokens.begin(),
                                expected.tokens.begin() + ptrdiff_t(expected.prompt_tokens));
    std::string text;
    TokenStream stream = served.model.stream(what);
    for (bool more = true; more;) {
      const StreamChunk chunk = stream.async_next(asio::use_future).get();
      tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
      text += chunk.text;
      if (chunk.summary) {
        EXPECT_EQ(chunk.summary->prompt_tokens, expected.prompt_tokens);
      }
      more = !chunk.summary;
    }
    EXPECT_EQ(tokens, expected.tokens);
    EXPECT_EQ(text, expected.text);

    std::vector<int32_t> chunked;
    const auto whole =
        served.model
            .async_generate(
                what,
                [&](const StreamChunk& chunk) {
                  chunked.insert(chunked.end(), chunk.tokens.begin(), chunk.tokens.end());
                },
                asio::use_future)
            .get();
    expect_same(whole, expected);
    EXPECT_TRUE(std::equal(chunked.begin(), chunked.end(),
                           expected.tokens.end() - ptrdiff_t(chunked.size()),
                           expected.tokens.end()));
    EXPECT_EQ(chunked.size(), 30u);
  }
}

// A text in the middle of a prompt begins with no bos token; a prefix given as a text does.
TEST(Reuse, ATextBehindAPrefixGetsNoBos) {
  GgufWriter writer = random_model_writer({});
  writer.boolean("tokenizer.ggml.add_bos_token", true);
  const auto file = writer.write_temp("bos");
  Engine engine(quiet());
  const Model model = engine.load(file->path(), small_options());
  PrefixRequest request{.text = "once upon"};
  const PrefixCache prefix = build_cache(model, request);
  const auto prompt = model.tokenizer().encode("once upon");
  ASSERT_EQ(prompt.front(), model.tokenizer().bos());
  EXPECT_TRUE(
      std::equal(prompt.begin(), prompt.end(), prefix.tokens().begin(), prefix.tokens().end()));
  GenerateRequest what{.text = " a time"};
  what.config.max_tokens = 4;
  what.prefix = prefix;
  const GenerateResult result = model.async_generate(what, asio::use_future).get();
  auto expected = prompt;
  const auto further = model.tokenizer().encode(" a time", {.add_bos = false});
  expected.insert(expected.end(), further.begin(), further.end());
  ASSERT_EQ(result.prompt_tokens, expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), result.tokens.begin()));
}

// ---- Work --------------------------------------------------------------------------------------

uint64_t block_rows_of(const ServedModel& served, const GenerateRequest& what) {
  const uint64_t before = served.model.statistics().block_rows;
  served.generate(what);
  return served.model.statistics().block_rows - before;
}

TEST(Reuse, TheFirstTokenBehindAWholePrefixRunsNoBlock) {
  const ServedModel served;
  const PrefixCache prefix = build_cache(served.model, prefix_request(50, 3));
  EXPECT_EQ(block_rows_of(served, behind(prefix, 1, 0)), 0u);
  EXPECT_EQ(block_rows_of(served, behind(prefix, 4, 0)), 3u * 3);
  EXPECT_EQ(block_rows_of(served, behind(prefix, 1, 5)), 5u * 3);
}

TEST(Reuse, AResumeRunsTheMissingIterationsAlone) {
  const ServedModel served;
  const ResumeHandle handle = build_resume(served.model, prefix_request(50, 3), 8);
  EXPECT_EQ(block_rows_of(served, resumed(handle, 3, 1)), 0u);
  EXPECT_EQ(block_rows_of(served, resumed(handle, 5, 1)), 50u * 2);
  EXPECT_EQ(block_rows_of(served, resumed(handle, 8, 3)), 50u * 5 + 2 * 8);
  const uint64_t before = served.model.statistics().block_rows;
  const ResumeHandle deeper = deepen(served.model, handle, 6);
  EXPECT_EQ(served.model.statistics().block_rows - before, 50u * 3);
  EXPECT_EQ(block_rows_of(served, resumed(deeper, 8, 1)), 50u * 2);
}

// A resume's rows take no part in the prelude, and each runs the coda once.
TEST(Reuse, AResumeRunsTheCodaForEveryPosition) {
  const ServedModel served;
  const ResumeHandle handle = build_resume(served.model, prefix_request(50, 3), 8);
  int32_t entered = 0, restored = 0, coda = 0;
  std::set<int32_t> iterations;
  visit_replica(served.model, [&](engine::BatchEngine& engine) {
    engine.set_plan_observer([&](const engine::StepPlan& plan) {
      for (const engine::ChunkStep& chunk : plan.chunks) {
        if (chunk.enters) entered += chunk.rows;
        if (chunk.restores) restored += chunk.rows;
        if (chunk.coda) coda += chunk.rows;
        if (chunk.iteration >= 0) iterations.insert(chunk.iteration);
      }
    });
  });
  served.generate(resumed(handle, 6, 1));
  EXPECT_EQ(entered, 0);
  EXPECT_EQ(restored, 50);
  EXPECT_EQ(coda, 50);
  EXPECT_EQ(iterations, (std::set<int32_t>{3, 4, 5}));
}

// ---- Refusals ----------------------------------------------------------------------------------

template <class Future>
void expect_error(Future future, errc code, const std::string& message) {
  const error_code error = error_of(future);
  EXPECT_TRUE(error == code) << error.message();
  EXPECT_EQ(error.message(), message);
}

class ReuseErrors : public ::testing::Test {
 protected:
  auto generate(const GenerateRequest& what) const {
    return served_.model.async_generate(what, use_outcome());
  }
  auto resume_build(const PrefixRequest& prefix, int32_t max_loops) const {
    return served_.model.async_build_resume({prefix, max_loops}, use_outcome());
  }

  const ServedModel served_;  // 16 loops at most, 256 positions
  const PrefixCache prefix_ = build_cache(served_.model, prefix_request(40, 3, 20));
  const ResumeHandle handle_ = build_resume(served_.model, prefix_request(40, 3, 20), 20);
};

TEST_F(ReuseErrors, OfDepths) {
  GenerateRequest what = behind(prefix_, 2);
  what.config.loops = 4;
  expect_error(generate(what), errc::loop_mismatch,
               "loop mismatch: loops: 4, the prefix was computed at 3");
  expect_error(generate(resumed(handle_, 2, 2)), errc::invalid_argument,
               "invalid argument: resume_loops: 2, allowed: 3 to 16");
  expect_error(generate(resumed(handle_, 17, 2)), errc::invalid_argument,
               "invalid argument: resume_loops: 17, allowed: 3 to 16");
  what = resumed(handle_, 5, 2);
  what.config.loops = 6;
  expect_error(generate(what), errc::invalid_argument,
               "invalid argument: loops: 6, allowed: 1 to 5");
  what = request(2);
  what.resume_loops = 3;
  expect_error(generate(what), errc::invalid_argument,
               "invalid argument: resume_loops: 3, allowed: only with resume");
  expect_error(served_.model.async_deepen({handle_, 2}, use_outcome()), errc::invalid_argument,
               "invalid argument: loops: 2, allowed: 3 to 16");
  expect_error(served_.model.async_deepen({handle_, 17}, use_outcome()), errc::invalid_argument,
               "invalid argument: loops: 17, allowed: 3 to 16");
}

TEST_F(ReuseErrors, OfBuilds) {
  expect_error(resume_build(prefix_request(4, 5), 4), errc::invalid_argument,
               "invalid argument: max_loops: 4, allowed: 5 to 64");
  expect_error(resume_build(prefix_request(4, 5), 65), errc::invalid_argument,
               "invalid argument: max_loops: 65, allowed: 5 to 64");
  expect_error(resume_build(prefix_request(4, 17), 32), errc::invalid_argument,
               "invalid argument: loops: 17, allowed: 1 to 16");
  expect_error(resume_build(prefix_request(0), 4), errc::invalid_argument,
               "invalid argument: prompt: empty, allowed: at least one token");
  expect_error(served_.model.async_build_prefix(prefix_request(257), use_outcome()),
               errc::invalid_argument,
               "invalid argument: sequence length: 257 tokens, allowed: max_seq_len 256");
  expect_error(served_.model.async_build_prefix(prefix_request(4, 3, -1), use_outcome()),
               errc::invalid_argument,
               "invalid argument: cache_window: -1, allowed: 0 (unbounded) or more");
  expect_error(served_.model.async_deepen({ResumeHandle(), 3}, use_outcome()),
               errc::invalid_argument, "invalid argument: handle: empty");
  EXPECT_EQ(build_cache(served_.model, prefix_request(256)).info().positions, 256);
  EXPECT_EQ(build_resume(served_.model, prefix_request(1, 1), 64).info().max_loops, 64);
}

TEST_F(ReuseErrors, OfWindowsLengthsAndTwoHandles) {
  GenerateRequest what = behind(prefix_, 2);
  what.config.cache_window = 21;
  expect_error(generate(what), errc::invalid_argument,
               "invalid argument: cache_window: 21, allowed: 20, that of the handle");
  what.config.cache_window = 20;
  EXPECT_EQ(served_.generate(what).tokens.size(), 47u);
  what = behind(prefix_, 212);
  expect_error(generate(what), errc::invalid_argument,
               "invalid argument: sequence length: 45 prompt tokens + max_tokens 212 = 257, "
               "allowed: max_seq_len 256");
  what.config.max_tokens = 211;
  EXPECT_EQ(served_.generate(what).tokens.size(), 256u);
  what.resume = handle_;
  expect_error(generate(what), errc::invalid_argument,
               "invalid argument: prefix, resume, pool: several are set, allowed: at most one");
}

TEST_F(ReuseErrors, OfAnotherModel) {
  const ServedModel other;
  const char* const message = "wrong model: the handle was made by another model";
  expect_error(other.model.async_generate(behind(prefix_, 2), use_outcome()), errc::wrong_model,
               message);
  expect_error(other.model.async_generate(resumed(handle_, 3, 2), use_outcome()), errc::wrong_model,
               message);
  expect_error(other.model.async_deepen({handle_, 3}, use_outcome()), errc::wrong_model, message);
  TokenStream stream = other.model.stream(behind(prefix_, 2));
  expect_error(stream.async_next(use_outcome()), errc::wrong_model, message);
}

TEST_F(ReuseErrors, AfterTheRelease) {
  const PrefixCache copy = prefix_;
  release(served_.model, prefix_);
  release(served_.model, copy);  // nothing is left to do
  release(served_.model, handle_);
  const char* const message = "handle lost: the handle has been released";
  expect_error(generate(behind(copy, 2)), errc::handle_lost, message);
  expect_error(generate(resumed(handle_, 3, 2)), errc::handle_lost, message);
  expect_error(served_.model.async_deepen({handle_, 3}, use_outcome()), errc::handle_lost, message);
  TokenStream stream = served_.model.stream(behind(copy, 2));
  expect_error(stream.async_next(use_outcome()), errc::handle_lost, message);
  EXPECT_EQ(copy.info().positions, 40);  // still says what it was
  expect_nothing_held(served_.model);
}

TEST_F(ReuseErrors, AfterTheUnload) {
  served_.model.async_unload(ShutdownMode::drain, asio::use_future).get();
  const char* const message = "model closed: the model has been unloaded";
  expect_error(generate(behind(prefix_, 2)), errc::model_closed, message);
  expect_error(served_.model.async_deepen({handle_, 3}, use_outcome()), errc::model_closed,
               message);
  EXPECT_EQ(served_.model.memory().total(), 0u);
  release(served_.model, prefix_);
}

// ---- Builds that are cut short -----------------------------------------------------------------

template <class Start>
void expect_a_cancelled_build_keeps_nothing(Start start) {
  ModelOptions options = small_options();
  options.prefill_budget = 16;
  for (const int passes : {1, 4, 9}) {
    ServedModel served(options);
    StepGate gate(served.model);
    asio::cancellation_signal signal;
    auto build = start(served.model, asio::bind_cancellation_slot(signal.slot(), use_outcome()));
    gate.run(passes);
    EXPECT_GT(served.model.memory().handles, 0u);
    signal.emit(asio::cancellation_type::terminal);
    gate.open();
    const auto outcome = build.get();
    EXPECT_EQ(outcome.error, asio::error::operation_aborted);
    EXPECT_FALSE(outcome);
    expect_nothing_held(served.model);
    EXPECT_EQ(served.model.statistics().completed_cancelled, 1u);
  }
}

TEST(ReuseBuild, ACancelledOneKeepsNothing) {
  expect_a_cancelled_build_keeps_nothing([](const Model& model, auto token) {
    return model.async_build_prefix(prefix_request(100), std::move(token));
  });
  expect_a_cancelled_build_keeps_nothing([](const Model& model, auto token) {
    return model.async_build_resume({prefix_request(100), 9}, std::move(token));
  });
}

TEST(ReuseBuild, ACancelledDeepenLeavesTheHandleAsItIs) {
  ModelOptions options = small_options();
  options.prefill_budget = 16;
  ServedModel served(options);
  const ResumeHandle handle = build_resume(served.model, prefix_request(100), 9);
  const MemoryReport before = served.model.memory();
  {
    StepGate gate(served.model);
    asio::cancellation_signal signal;
    auto build = served.model.async_deepen(
        {handle, 8}, asio::bind_cancellation_slot(signal.slot(), use_outcome()));
    gate.run(3);
    EXPECT_GT(served.model.memory().handles, before.handles);
    signal.emit(asio::cancellation_type::terminal);
    gate.open();
    EXPECT_EQ(error_of(build), asio::error::operation_aborted);
  }
  const MemoryReport after = served.model.memory();
  EXPECT_EQ(after.pages_used, before.pages_used);
  EXPECT_EQ(after.cache_reserved, before.cache_reserved);
  EXPECT_EQ(after.handles, before.handles);
  const auto what = resumed(handle, 9, 6);
  expect_same(served.generate(what), served.generate(without_handle(what)));
}

TEST(ReuseBuild, ADeadlineThatPassesInItIsAnError) {
  ModelOptions options = small_options();
  options.prefill_budget = 16;
  ServedModel served(options);
  StepGate gate(served.model);
  PrefixRequest soon = prefix_request(100);
  soon.deadline = steady_clock::now() + std::chrono::seconds(1);
  auto build = served.model.async_build_prefix(soon, use_outcome());
  gate.run(3);
  while (steady_clock::now() <= *soon.deadline) std::this_thread::yield();
  gate.open();
  expect_error(std::move(build), errc::deadline_exceeded,
               "deadline exceeded: the prefix was not complete at its deadline");
  expect_nothing_held(served.model);
  EXPECT_EQ(served.model.statistics().completed_deadline, 1u);
  PrefixRequest late = prefix_request(10);
  late.deadline = steady_clock::now() - hours(1);
  auto never = served.model.async_build_prefix(late, use_outcome());
  EXPECT_TRUE(error_of(never) == errc::deadline_exceeded);
}

}  // namespace
}  // namespace tinyloop::testing
