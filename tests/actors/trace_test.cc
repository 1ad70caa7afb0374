// What a replica writes down of its life, and how it reads as Chrome's JSON.
#include "tinyloop/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "actors/trace_ring.h"
#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;
using Events = std::vector<TraceEvent>;

ModelOptions traced(int32_t events = 1 << 16) {
  ModelOptions options = small_options();
  options.trace_events = events;
  return options;
}

Trace trace_of(const Model& model) {
  return model.async_trace(0, asio::use_future).get();
}

Events of_kind(const Events& events, TraceKind kind) {
  Events found;
  std::copy_if(events.begin(), events.end(), std::back_inserter(found),
               [&](const TraceEvent& e) { return e.kind == kind; });
  return found;
}

Events of_request(const Trace& trace, uint64_t number) {
  Events found;
  std::copy_if(trace.events.begin(), trace.events.end(), std::back_inserter(found),
               [&](const TraceEvent& e) { return e.request == number; });
  return found;
}

bool lies_in(const TraceEvent& inner, const TraceEvent& outer) {
  return inner.begin_us >= outer.begin_us && inner.end_us <= outer.end_us;
}

// The phases of a request that has ended, in order and without a gap. Returns its end.
TraceEvent expect_phases(const Events& events, const std::vector<TraceKind>& phases) {
  std::vector<TraceKind> found;
  int64_t reached = 0;
  for (const TraceEvent& e : events) {
    if (e.kind == TraceKind::chunk || e.kind == TraceKind::end) continue;
    EXPECT_LE(e.begin_us, e.end_us);
    if (!found.empty()) {
      EXPECT_EQ(e.begin_us, reached);
    }
    reached = e.end_us;
    found.push_back(e.kind);
  }
  EXPECT_EQ(found, phases);
  const Events ends = of_kind(events, TraceKind::end);
  EXPECT_EQ(ends.size(), 1u);
  if (ends.empty()) return {};
  EXPECT_EQ(ends[0].begin_us, reached);
  EXPECT_EQ(ends[0].end_us, reached);
  return ends[0];
}

const std::vector<TraceKind> kWhole = {TraceKind::queue, TraceKind::prefill, TraceKind::decode};

// Every position before `positions` ran each of `depth` iterations once, in order, in chunks that
// follow each other within prefill and decode.
void expect_iterations(const Events& events, int32_t positions, int32_t depth) {
  const Events prefill = of_kind(events, TraceKind::prefill);
  const Events decode = of_kind(events, TraceKind::decode);
  std::vector<int32_t> next(size_t(positions), 0);
  int64_t reached = 0;
  for (const TraceEvent& chunk : of_kind(events, TraceKind::chunk)) {
    EXPECT_GE(chunk.begin_us, reached);
    reached = chunk.end_us;
    EXPECT_TRUE(lies_in(chunk, prefill.at(0)) || (!decode.empty() && lies_in(chunk, decode.at(0))));
    EXPECT_EQ(chunk.depth, depth);
    EXPECT_EQ(chunk.enters, chunk.iteration == 0);
    if (chunk.iteration < 0) continue;
    for (int32_t row = 0; row < chunk.rows; ++row) {
      EXPECT_EQ(next.at(size_t(chunk.position + row))++, chunk.iteration);
    }
  }
  EXPECT_EQ(next, std::vector<int32_t>(size_t(positions), depth));
}

// Chunks lie in their passes, passes in their steps, and rows add up to what the model has counted.
void expect_whole_steps(const Trace& trace, const Statistics& statistics) {
  std::map<uint64_t, TraceEvent> passes;
  for (const TraceEvent& e : of_kind(trace.events, TraceKind::pass)) {
    EXPECT_TRUE(passes.emplace(e.pass, e).second) << e.pass;
  }
  EXPECT_EQ(passes.size(), statistics.passes);
  std::map<uint64_t, int32_t> rows;
  for (const TraceEvent& e : of_kind(trace.events, TraceKind::chunk)) {
    EXPECT_TRUE(lies_in(e, passes.at(e.pass)));
    rows[e.pass] += e.iteration < 0 ? 0 : e.rows;
  }
  for (const auto& [number, pass] : passes) EXPECT_EQ(rows[number], pass.rows);
  uint64_t next_pass = 0, prompt_rows = 0, block_rows = 0, tokens = 0;
  int64_t reached = 0;
  for (const TraceEvent& step : of_kind(trace.events, TraceKind::step)) {
    EXPECT_GE(step.begin_us, reached);
    reached = step.end_us;
    EXPECT_EQ(step.pass, next_pass);
    int32_t in_block = 0, prompt = 0;
    for (int32_t i = 0; i < step.passes; ++i) {
      const TraceEvent& pass = passes.at(next_pass++);
      EXPECT_TRUE(lies_in(pass, step));
      in_block += pass.rows;
      prompt += pass.prompt_rows;
    }
    EXPECT_EQ(step.rows, in_block);
    EXPECT_EQ(step.prompt_rows, prompt);
    block_rows += uint64_t(step.rows);
    prompt_rows += uint64_t(step.prompt_rows);
    tokens += uint64_t(step.tokens);
  }
  EXPECT_EQ(next_pass, statistics.passes);
  EXPECT_EQ(block_rows, statistics.block_rows);
  EXPECT_EQ(prompt_rows, statistics.prompt_tokens);
  EXPECT_EQ(tokens, statistics.generated_tokens);
}

// ---- Events ------------------------------------------------------------------------------------

TEST(TraceRing, KeepsTheLatest) {
  actors::TraceRing ring(4);
  for (uint64_t added = 0; added <= 10; ++added) {
    Events room(4);
    ring.copy_to(room);
    const uint64_t kept = std::min<uint64_t>(added, 4);
    ASSERT_EQ(room.size(), kept);
    EXPECT_EQ(ring.lost(), added - kept);
    for (uint64_t i = 0; i < kept; ++i) EXPECT_EQ(room[i].pass, added - kept + i);
    ring.add({.pass = added});
  }
}

// Depths 1 to 8, prompts cut into slices of 4, more requests than there are places.
void expect_requests_to_be_traced(const Model& model) {
  std::vector<std::future<GenerateResult>> futures;
  {
    const Pause pause(model);
    for (int32_t i = 0; i < 8; ++i) {
      auto what = request(3 + i, i);
      what.config.loops = 1 + i;
      what.tokens.resize(size_t(5 + 3 * i), 9);
      what.when_full = WhenFull::wait;
      futures.push_back(model.async_generate(what, asio::use_future));
    }
  }
  for (auto& future : futures) future.get();
  const Trace trace = trace_of(model);
  EXPECT_EQ(trace.device, model.info().device);
  EXPECT_EQ(trace.model, model.info().name);
  EXPECT_EQ(trace.lost, 0u);
  expect_whole_steps(trace, model.statistics());
  std::set<int32_t> depths;
  for (uint64_t number = 1; number <= 8; ++number) {
    const Events events = of_request(trace, number);
    const TraceEvent end = expect_phases(events, kWhole);
    EXPECT_EQ(end.error, errc::ok);
    EXPECT_EQ(end.finish_reason, FinishReason::max_tokens);
    EXPECT_EQ(end.prompt_tokens, 5 + 3 * (end.depth - 1));
    EXPECT_EQ(end.tokens, 3 + end.depth - 1);
    expect_iterations(events, end.prompt_tokens + end.tokens - 1, end.depth);
    depths.insert(end.depth);
  }
  EXPECT_EQ(depths.size(), 8u);
  EXPECT_TRUE(of_request(trace, 9).empty());
}

TEST(Trace, EveryTokenRanItsIterations) {
  ModelOptions options = traced();
  options.prefill_budget = 4;
  const ServedModel served(options);
  expect_requests_to_be_traced(served.model);
}

// As on a GPU.
TEST(Trace, StepsOfSeveralPasses) {
  const auto device = std::make_shared<TestDevice>();
  device->runs_ahead = true;
  EngineOn engine(test_backends(device));
  const auto [error, model] = engine.load(traced());
  ASSERT_FALSE(error) << error.message();
  expect_requests_to_be_traced(model);
  const Events steps = of_kind(trace_of(model).events, TraceKind::step);
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [](const auto& e) { return e.passes > 1; }));
}

TEST(Trace, TimesAreTheCallersToo) {
  const auto now_us = [] {
    return std::chrono::floor<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  const ServedModel served(traced());
  const int64_t before = now_us();
  const Timings timings = served.generate(request(5)).timings;
  const int64_t after = now_us();
  const Events events = of_request(trace_of(served.model), 1);
  const TraceEvent queue = of_kind(events, TraceKind::queue).at(0);
  const TraceEvent prefill = of_kind(events, TraceKind::prefill).at(0);
  EXPECT_GE(queue.begin_us, before);
  EXPECT_LE(of_kind(events, TraceKind::end).at(0).end_us, after);
  EXPECT_NEAR(double(queue.end_us - queue.begin_us), timings.queue_us, 1);
  EXPECT_NEAR(double(prefill.end_us - prefill.begin_us), timings.prefill_us, 1);
}

TEST(Trace, ScoresAndPrefixesHaveNoDecode) {
  const ServedModel served(traced());
  ScoreRequest score;
  score.tokens = request(1).tokens;
  served.model.async_score(score, asio::use_future).get();
  const auto prefix =
      served.model.async_build_prefix({.tokens = {1, 2, 3}, .loops = 2}, asio::use_future).get();
  GenerateRequest behind = request(2);
  behind.prefix = prefix;
  served.generate(behind);
  score.tokens.resize(1);  // nothing to compute
  served.model.async_score(score, asio::use_future).get();
  const Trace trace = trace_of(served.model);
  const std::vector<TraceKind> short_phases = {TraceKind::queue, TraceKind::prefill};
  EXPECT_EQ(expect_phases(of_request(trace, 1), short_phases).tokens, 0);
  expect_iterations(of_request(trace, 1), 4, 4);
  EXPECT_EQ(expect_phases(of_request(trace, 2), short_phases).depth, 2);
  expect_iterations(of_request(trace, 2), 3, 2);
  EXPECT_EQ(expect_phases(of_request(trace, 3), kWhole).prompt_tokens, 8);
  EXPECT_EQ(of_kind(of_request(trace, 3), TraceKind::chunk).at(0).position, 3);
  expect_phases(of_request(trace, 4), short_phases);
  EXPECT_TRUE(of_kind(of_request(trace, 4), TraceKind::chunk).empty());
  expect_whole_steps(trace, served.model.statistics());
}

TEST(Trace, TheOldestAreLostAndCounted) {
  const auto life = [](int32_t capacity) {
    const ServedModel served(traced(capacity));
    served.generate(request(6));
    served.generate(request(4, 2));
    return trace_of(served.model);
  };
  const Trace whole = life(1 << 16), latest = life(10);
  EXPECT_EQ(whole.lost, 0u);
  ASSERT_EQ(latest.events.size(), 10u);
  EXPECT_EQ(latest.lost + 10, whole.events.size());
  for (size_t i = 0; i < 10; ++i) {
    const TraceEvent& a = latest.events[i];
    const TraceEvent& b = whole.events[latest.lost + i];
    EXPECT_EQ(a.kind, b.kind);
    EXPECT_EQ(a.request, b.request);
    EXPECT_EQ(a.pass, b.pass);
    EXPECT_EQ(a.iteration, b.iteration);
  }
}

TEST(Trace, OfARequestUnderWayThereIsWhatLiesBehindIt) {
  const ServedModel served(traced());
  StepGate gate(served.model);
  auto future = served.model.async_generate(request(5), asio::use_future);
  gate.run(1);
  auto reading = served.model.async_trace(0, asio::use_future);
  gate.allow(2);
  const Trace trace = reading.get();
  EXPECT_EQ(of_kind(trace.events, TraceKind::queue).size(), 1u);
  EXPECT_EQ(of_kind(trace.events, TraceKind::prefill).size(), 0u);
  EXPECT_GE(of_kind(trace.events, TraceKind::chunk).size(), 1u);
  EXPECT_EQ(of_kind(trace.events, TraceKind::end).size(), 0u);
  gate.open();
  future.get();
}

TEST(Trace, OffThereIsNothing) {
  const ServedModel served;
  served.generate(request(2));
  EXPECT_EQ(served.model.state()->replica().inbox()->tracer, nullptr);
  const Trace trace = trace_of(served.model);
  EXPECT_TRUE(trace.events.empty());
  EXPECT_EQ(trace.lost, 0u);
}

// ---- Requests that end early -------------------------------------------------------------------

TEST(Trace, CancelsAtEachStage) {
  ModelOptions options = traced();
  options.max_sequences = 1;
  const ServedModel served(options);
  asio::cancellation_signal signals[3];
  const auto start = [&](int which, int32_t max_tokens) {
    return served.model.async_generate(
        request(max_tokens), asio::bind_cancellation_slot(signals[which].slot(), use_error()));
  };
  const auto cancel = [&](int which) { signals[which].emit(asio::cancellation_type::terminal); };
  StepGate gate(served.model);
  auto decoding = start(0, 100);
  gate.run(1);
  auto queued = start(1, 5);
  gate.run(8);
  cancel(1);
  gate.run(1);
  cancel(0);
  auto prefilling = start(2, 5);
  gate.run(1);
  cancel(2);
  gate.open();
  EXPECT_EQ(queued.get(), asio::error::operation_aborted);
  EXPECT_FALSE(decoding.get());
  EXPECT_FALSE(prefilling.get());
  const Trace trace = trace_of(served.model);
  const TraceEvent first = expect_phases(of_request(trace, 1), kWhole);
  EXPECT_EQ(first.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(first.tokens, 2);
  EXPECT_EQ(of_kind(of_request(trace, 1), TraceKind::chunk).size(), 11u);
  const TraceEvent second = expect_phases(of_request(trace, 2), {TraceKind::queue});
  EXPECT_EQ(second.error, errc::operation_aborted);
  const TraceEvent third =
      expect_phases(of_request(trace, 3), {TraceKind::queue, TraceKind::prefill});
  EXPECT_EQ(third.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(third.tokens, 0);
}

TEST(Trace, RefusalsOfTheReplicaButNotThoseOnTheCallersThread) {
  ModelOptions options = traced();
  options.cache_budget_bytes = bytes_of(request(40));
  const ServedModel served(options);
  const auto error = [&](const GenerateRequest& what) {
    return served.model.async_generate(what, use_error()).get();
  };
  EXPECT_TRUE(error(request(0)) == errc::invalid_argument);
  EXPECT_TRUE(error(request(200)) == errc::out_of_memory);
  StepGate gate(served.model);
  auto all_of_it = served.model.async_generate(request(40), asio::use_future);
  gate.run(1);
  auto too_much = served.model.async_generate(request(40), use_error());
  gate.open();
  EXPECT_TRUE(too_much.get() == errc::overloaded);
  all_of_it.get();
  const Trace trace = trace_of(served.model);
  EXPECT_EQ(expect_phases(of_request(trace, 1), {TraceKind::queue}).error, errc::out_of_memory);
  EXPECT_EQ(of_kind(trace.events, TraceKind::end).size(), 3u);
  EXPECT_EQ(expect_phases(of_request(trace, 3), {TraceKind::queue}).error, errc::overloaded);
}

TEST(Trace, AFailedReplicasLastEventsCanBeRead) {
  ModelOptions options = traced();
  options.max_sequences = 1;
  const auto device = std::make_shared<TestDevice>();
  EngineOn engine(test_backends(device));
  const auto [error, model] = engine.load(options);
  ASSERT_FALSE(error) << error.message();
  std::vector<std::future<error_code>> futures;
  {
    const Pause pause(model);
    device->fail_in = 6;
    for (int32_t seed : {1, 2}) {
      futures.push_back(model.async_generate(request(20, seed), use_error()));
    }
  }
  for (auto& future : futures) EXPECT_TRUE(future.get() == errc::replica_failed);
  const Trace trace = trace_of(model);
  EXPECT_EQ(of_kind(trace.events, TraceKind::failure).size(), 1u);
  EXPECT_EQ(expect_phases(of_request(trace, 1), kWhole).error, errc::replica_failed);
  EXPECT_EQ(expect_phases(of_request(trace, 2), {TraceKind::queue}).error, errc::replica_failed);
}

TEST(Trace, OptionsAndErrors) {
  Engine engine(quiet());
  for (const int32_t wrong : {-1, (1 << 24) + 1}) {
    const error_code error =
        engine.async_load(small_model().path(), traced(wrong), use_error()).get();
    EXPECT_TRUE(error == errc::invalid_argument);
    EXPECT_EQ(error.message(), "invalid argument: trace_events: " + std::to_string(wrong) +
                                   ", allowed: 0 to 16777216");
  }
  EXPECT_TRUE(Model().async_trace(0, use_error()).get() == errc::model_closed);
  const Model model = engine.load(small_model().path(), traced());
  model.async_unload(ShutdownMode::drain, asio::use_future).get();
  EXPECT_TRUE(model.async_trace(0, use_error()).get() == errc::model_closed);
}

// ---- Chrome's JSON -----------------------------------------------------------------------------

using nlohmann::json;

// Complete events of one track, in the order of the file: each lies in those that are still open.
void expect_nested(const std::vector<json>& track) {
  std::vector<int64_t> open;
  int64_t reached = INT64_MIN;
  for (const json& e : track) {
    const auto begin = e.at("ts").get<int64_t>();
    const int64_t end = begin + e.at("dur").get<int64_t>();
    EXPECT_GE(begin, reached) << e;
    reached = begin;
    while (!open.empty() && open.back() <= begin && open.back() < end) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(end, open.back()) << e;
    }
    open.push_back(end);
  }
}

TEST(ChromeTrace, ParsesAndNests) {
  ModelOptions options = traced();
  options.prefill_budget = 4;
  const ServedModel served(options);
  expect_requests_to_be_traced(served.model);
  const Trace trace = trace_of(served.model);
  const json page = json::parse(chrome_trace_json(trace));
  EXPECT_EQ(page.at("otherData").at("lost"), 0);
  std::map<std::pair<int, int>, std::vector<json>> tracks;
  std::map<std::string, size_t> kinds;
  std::set<std::string> names, threads;
  for (const json& e : page.at("traceEvents")) {
    const std::string phase = e.at("ph");
    if (phase == "M") {
      threads.insert(e.at("args").at("name").get<std::string>());
      continue;
    }
    ++kinds[e.at("cat").get<std::string>()];
    names.insert(e.at("name").get<std::string>());
    if (phase == "X") tracks[{e.at("pid"), e.at("tid")}].push_back(e);
  }
  EXPECT_EQ(tracks.size(), 9u);
  for (const auto& [key, track] : tracks) expect_nested(track);
  for (const auto kind : {TraceKind::step, TraceKind::pass, TraceKind::queue, TraceKind::prefill,
                          TraceKind::decode, TraceKind::chunk, TraceKind::end}) {
    EXPECT_EQ(kinds[to_string(kind)], of_kind(trace.events, kind).size()) << to_string(kind);
  }
  EXPECT_EQ(kinds["end"], 8u);
  EXPECT_TRUE(names.contains("iteration 7"));
  EXPECT_TRUE(threads.contains("request 8"));
  EXPECT_TRUE(threads.contains("requests"));
}

TEST(ChromeTrace, AnEventSaysWhatItIs) {
  Trace trace{.device = "cpu"};
  trace.events = {{.kind = TraceKind::chunk,
                   .enters = true,
                   .request = 3,
                   .begin_us = 100,
                   .end_us = 107,
                   .pass = 12,
                   .rows = 2,
                   .position = 40,
                   .iteration = 1,
                   .depth = 4},
                  {.kind = TraceKind::end,
                   .error = errc::out_of_memory,
                   .request = 3,
                   .begin_us = 108,
                   .end_us = 108,
                   .depth = 4,
                   .tokens = 2,
                   .prompt_tokens = 9}};
  const json events = json::parse(chrome_trace_json(trace)).at("traceEvents");
  const json chunk = events.at(events.size() - 2), end = events.back();
  EXPECT_EQ(chunk, json::parse(R"({"name":"iteration 1","cat":"chunk","ph":"X","pid":2,"tid":3,
      "ts":100,"dur":7,"args":{"pass":12,"iteration":1,"depth":4,"rows":2,"position":40,
      "enters":true,"leaves":false}})"));
  EXPECT_EQ(end, json::parse(R"({"name":"end","cat":"end","ph":"i","s":"t","pid":2,"tid":3,
      "ts":108,"args":{"outcome":"out of memory","prompt_tokens":9,"tokens":2,"loops":4}})"));
}

TEST(ChromeTrace, NamesAreEscaped) {
  const Trace trace{.model = "a \"quoted\" \\ and\nbroken\x01 n\xff", .device = "d"};
  const json page = json::parse(chrome_trace_json(trace));
  EXPECT_EQ(page.at("otherData").at("model"), "a \"quoted\" \\ and\nbroken\x01 n\xEF\xBF\xBD");
  EXPECT_TRUE(json::parse(chrome_trace_json({})).at("traceEvents").is_array());
}

}  // namespace
}  // namespace tinyloop::testing
