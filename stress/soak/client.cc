#include "stress/soak/client.h"

#include <algorithm>
#include <bit>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <utility>

namespace tinyloop::soak {

namespace asio = boost::asio;

namespace {

constexpr size_t kInFlight = 4;
constexpr size_t kMostKept = 3;  // handles of a kind

void spin(int32_t turns) {
  for (std::atomic<int32_t> left{turns}; left.load(std::memory_order_relaxed) > 0;) --left;
}

bool is_cut(FinishReason reason) {
  return reason == FinishReason::cancelled || reason == FinishReason::deadline;
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

}  // namespace

// Lives until its operation has ended. The signal is emitted by the client's thread alone.
template <class Result>
struct Client::Flight {
  asio::cancellation_signal signal;
  std::promise<std::pair<error_code, Result>> promise;
  std::atomic<int> calls{0};
};

void Client::run() {
  while (!world_.stop) {
    if (world_.pauses) {
      give_up_everything();
      world_.meet();
      world_.meet();
    } else {
      act();
    }
  }
  give_up_everything();
}

void Client::act() {
  switch (below(24)) {
    case 0:
    case 1:
      return build_prefix();
    case 2:
      return build_resume();
    case 3:
      return deepen();
    case 4:
    case 5:
    case 6:
      return generate_from_prefix();
    case 7:
    case 8:
      return generate_from_resume();
    case 9:
    case 10:
    case 11:
    case 12:
      return generate_from_pool();
    case 13:
      return register_prefix();
    case 14:
      return release_one();
    case 15:
    case 16:
      return stream();
    case 17:
    case 18:
      return score();
    case 19:
      return ask();
    default:
      return generate();
  }
}

Passage Client::draw_passage() {
  return {.beginning = size_t(below(int32_t(Script::kBeginnings))),
          .ending = size_t(below(int32_t(Script::kEndings))),
          .loops = 1 + below(Script::kDepths),
          .random = one_in(3)};
}

Client::Terms Client::draw_terms() {
  Terms terms;
  terms.cancels = one_in(5);
  terms.delay = below(1 << below(16));
  if (one_in(10)) {
    terms.deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(below(20000));
  }
  terms.when_full = one_in(3)   ? WhenFull::fail
                    : one_in(2) ? WhenFull::wait
                                : WhenFull::wait_for_requests;
  // What it waits for may be in the hands of this very thread.
  if (terms.when_full == WhenFull::wait && !terms.deadline) {
    terms.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(below(1000));
  }
  terms.priority = one_in(3) ? below(33) - 16 : 0;
  return terms;
}

// Of a request that samples nothing.
template <class Request>
void Client::set_terms(Request& request, const Terms& terms) {
  request.deadline = terms.deadline;
  request.when_full = terms.when_full;
  request.priority = terms.priority;
}

// Starts the operation and leaves it to settle(). Start: start(handler).
template <class Result, class Start, class Check>
void Client::launch(const char* kind, const Terms& terms, Start&& start, Check check) {
  const auto flight = std::make_shared<Flight<Result>>();
  auto outcome = flight->promise.get_future().share();
  world_.ledger.sent();
  start(asio::bind_cancellation_slot(
      flight->signal.slot(), [this, flight, kind](error_code error, Result result) {
        if (flight->calls.fetch_add(1) > 0) {
          return world_.ledger.problem(std::string(kind) + " has completed twice");
        }
        world_.ledger.completed(kind, error);
        flight->promise.set_value({error, std::move(result)});
      }));
  cut(terms, [&] { flight->signal.emit(asio::cancellation_type::terminal); });
  pending_.push_back([this, kind, terms, outcome, flight, check = std::move(check)] {
    const auto& [error, result] = outcome.get();
    expect(kind, error, terms);
    if (!error) check(result);
  });
  settle(kInFlight);
}

void Client::cut(const Terms& terms, const std::function<void()>& cancel) {
  if (!terms.cancels) return;
  spin(terms.delay);
  cancel();
}

void Client::expect(const char* kind, const error_code& error, const Terms& terms) {
  bool explained = false;
  switch (errc_of(error)) {
    case errc::ok:
      explained = true;
      break;
    case errc::overloaded:
      explained = terms.when_full == WhenFull::fail || terms.builds || terms.has_pool;
      break;
    case errc::out_of_memory:  // the budget is tight, and handles hold most of it
      explained = true;
      break;
    case errc::operation_aborted:
      explained = terms.cancels;
      break;
    case errc::deadline_exceeded:
      explained = terms.deadline.has_value();
      break;
    case errc::replica_failed:
      explained = world_.kills > 0;
      break;
    case errc::handle_lost:
      explained = terms.has_base && world_.kills + world_.drains > 0;
      break;
    case errc::shutdown:  // those that a drain waits for in vain, and those with a home there
      explained = world_.drains > 0 &&
                  (terms.has_base || terms.has_pool || terms.when_full != WhenFull::fail);
      break;
    default:
      break;
  }
  if (!explained) world_.ledger.problem(std::string(kind) + ": " + error.message());
}

void Client::check(const Passage& passage, const GenerateResult& result,
                   const GenerateRequest& request, const Terms& terms) {
  const std::vector<int32_t>& whole = world_.script.expected(passage);
  const bool begins = result.tokens.size() <= whole.size() &&
                      std::equal(result.tokens.begin(), result.tokens.end(), whole.begin());
  if (!begins) return world_.ledger.problem("other tokens than in the serial run");
  if (is_cut(result.finish_reason)) {
    const bool asked = result.finish_reason == FinishReason::cancelled ? terms.cancels
                                                                       : terms.deadline.has_value();
    if (!asked) world_.ledger.problem("cut short without a cause");
    return;
  }
  if (result.tokens.size() != result.prompt_tokens + size_t(request.config.max_tokens)) {
    world_.ledger.problem("complete, and tokens are missing");
  }
}

void Client::send(const Passage& passage, GenerateRequest request, const Terms& terms) {
  request.config.max_tokens = 1 + below(Script::kMostTokens);
  request.config.deadline = terms.deadline;
  request.config.priority = terms.priority;
  request.when_full = terms.when_full;
  const auto checks = [this, passage, request, terms](const GenerateResult& result) {
    check(passage, result, request, terms);
  };
  launch<GenerateResult>(
      "generate", terms,
      [&](auto handler) { world_.model.async_generate(request, std::move(handler)); }, checks);
}

void Client::generate() {
  const Passage passage = draw_passage();
  GenerateRequest request{.tokens = world_.script.tokens(passage),
                          .config = world_.script.config(passage)};
  send(passage, std::move(request), draw_terms());
}

void Client::generate_from_prefix() {
  if (prefixes_.empty()) return;
  const auto& kept = prefixes_[size_t(below(int32_t(prefixes_.size())))];
  Passage passage = draw_passage();
  passage.beginning = kept.beginning;
  passage.loops = kept.loops;
  GenerateRequest request{.tokens = world_.script.ending(passage.ending),
                          .config = world_.script.config(passage),
                          .prefix = kept.handle};
  Terms terms = draw_terms();
  terms.has_base = true;
  send(passage, std::move(request), terms);
}

void Client::generate_from_resume() {
  if (resumes_.empty()) return;
  const auto& kept = resumes_[size_t(below(int32_t(resumes_.size())))];
  Passage passage = draw_passage();
  passage.beginning = kept.beginning;
  passage.loops = kept.loops + below(Script::kDepths - kept.loops + 1);
  GenerateRequest request{.tokens = world_.script.ending(passage.ending),
                          .config = world_.script.config(passage),
                          .resume = kept.handle,
                          .resume_loops = passage.loops};
  Terms terms = draw_terms();
  terms.has_base = true;
  send(passage, std::move(request), terms);
}

void Client::generate_from_pool() {
  const SharedPool shared = world_.pool(size_t(below(16)));
  if (!shared.pool) return;
  Passage passage = draw_passage();
  passage.loops = shared.loops;
  GenerateRequest request{.tokens = world_.script.tokens(passage),
                          .config = world_.script.config(passage),
                          .pool = shared.pool};
  Terms terms = draw_terms();
  terms.has_pool = true;
  send(passage, std::move(request), terms);
}

// The chunks of a callback, put together, are the result.
void Client::stream() {
  const Passage passage = draw_passage();
  Terms terms = draw_terms();
  GenerateRequest request{.tokens = world_.script.tokens(passage),
                          .config = world_.script.config(passage)};
  request.config.max_tokens = 1 + below(Script::kMostTokens);
  request.config.deadline = terms.deadline;
  request.when_full = terms.when_full;
  const auto pieces = std::make_shared<std::vector<int32_t>>(request.tokens);
  launch<GenerateResult>(
      "chunks", terms,
      [&](auto handler) {
        world_.model.async_generate(
            request,
            [pieces](const StreamChunk& chunk) {
              pieces->insert(pieces->end(), chunk.tokens.begin(), chunk.tokens.end());
            },
            std::move(handler));
      },
      [this, passage, request, terms, pieces](const GenerateResult& result) {
        if (*pieces != result.tokens) world_.ledger.problem("the chunks are not the result");
        check(passage, result, request, terms);
      });
  // One that nobody reads to its end.
  if (!one_in(3)) return;
  TokenStream dropped = world_.model.stream(request);
  if (one_in(2)) {
    world_.ledger.sent();
    auto next = dropped.async_next(
        asio::use_future([](error_code error, const StreamChunk&) { return error; }));
    world_.ledger.completed("stream", next.get());
  }
  spin(terms.delay);
}

void Client::score() {
  const Passage passage = draw_passage();
  const Terms terms = draw_terms();
  ScoreRequest request{.tokens = world_.script.tokens(passage), .loops = passage.loops};
  set_terms(request, terms);
  launch<ScoreResult>(
      "score", terms, [&](auto handler) { world_.model.async_score(request, std::move(handler)); },
      [this, passage](const ScoreResult& result) {
        const std::vector<float>& whole = world_.script.expected_score(passage);
        const bool begins =
            result.logprobs.size() <= whole.size() &&
            std::equal(result.logprobs.begin(), result.logprobs.end(), whole.begin(), same_bits);
        if (!begins) world_.ledger.problem("other scores than in the serial run");
        if (!is_cut(result.finish_reason) && result.logprobs.size() != whole.size()) {
          world_.ledger.problem("complete, and scores are missing");
        }
      });
}

void Client::build_prefix() {
  const Passage passage = draw_passage();
  Terms terms = draw_terms();
  terms.builds = true;
  PrefixRequest request{.tokens = world_.script.beginning(passage.beginning),
                        .loops = passage.loops};
  set_terms(request, terms);
  launch<PrefixCache>(
      "build_prefix", terms,
      [&](auto handler) { world_.model.async_build_prefix(request, std::move(handler)); },
      [this, passage](const PrefixCache& handle) {
        if (prefixes_.size() >= kMostKept) prefixes_.erase(prefixes_.begin());
        prefixes_.push_back({handle, passage.beginning, passage.loops});
      });
}

void Client::build_resume() {
  const Passage passage = draw_passage();
  Terms terms = draw_terms();
  terms.builds = true;
  ResumeRequest request{
      {.tokens = world_.script.beginning(passage.beginning), .loops = passage.loops},
      Script::kDepths};
  set_terms(request.prefix, terms);
  launch<ResumeHandle>(
      "build_resume", terms,
      [&](auto handler) { world_.model.async_build_resume(request, std::move(handler)); },
      [this, passage](const ResumeHandle& handle) {
        if (resumes_.size() >= kMostKept) resumes_.erase(resumes_.begin());
        resumes_.push_back({handle, passage.beginning, passage.loops});
      });
}

void Client::deepen() {
  if (resumes_.empty()) return;
  const auto kept = resumes_[size_t(below(int32_t(resumes_.size())))];
  const int32_t loops = kept.loops + below(Script::kDepths - kept.loops + 1);
  Terms terms = draw_terms();
  terms.builds = terms.has_base = true;
  DeepenRequest request{.handle = kept.handle, .loops = loops};
  set_terms(request, terms);
  launch<ResumeHandle>(
      "deepen", terms,
      [&](auto handler) { world_.model.async_deepen(request, std::move(handler)); },
      [this, kept, loops](const ResumeHandle& handle) {
        if (resumes_.size() >= kMostKept) resumes_.erase(resumes_.begin());
        resumes_.push_back({handle, kept.beginning, loops});
      });
}

void Client::register_prefix() {
  const SharedPool shared = world_.pool(size_t(below(16)));
  if (!shared.pool) return;
  Terms terms = draw_terms();
  terms.builds = terms.has_pool = true;
  PrefixRequest request{
      .tokens = world_.script.beginning(size_t(below(int32_t(Script::kBeginnings)))),
      .loops = shared.loops};
  set_terms(request, terms);
  launch<int32_t>(
      "register_prefix", terms,
      [&](auto handler) {
        world_.model.async_register_prefix(shared.pool, request, std::move(handler));
      },
      [this](int32_t id) {
        if (id < 1) world_.ledger.problem("registered, and there is no id");
      });
}

// Explicitly, while others of our own requests may use it; or by dropping it.
void Client::release_one() {
  if (prefixes_.empty()) return;
  const PrefixCache handle = std::move(prefixes_.back().handle);
  prefixes_.pop_back();
  if (one_in(2)) return;
  settle(0);
  world_.ledger.sent();
  auto released =
      world_.model.async_release(handle, asio::use_future([](error_code error) { return error; }));
  const error_code error = released.get();
  world_.ledger.completed("release", error);
  if (error) world_.ledger.problem("release: " + error.message());
}

void Client::ask() {
  const MemoryReport memory = world_.model.memory();
  if (memory.page_bytes_used > memory.cache_budget) world_.ledger.problem("pages over budget");
  if (world_.model.health().replicas.empty()) world_.ledger.problem("no replicas");
  if (prometheus_text(world_.model.metrics()).empty()) world_.ledger.problem("no metrics");
  const SharedPool shared = world_.pool(size_t(below(16)));
  if (!shared.pool) return;
  world_.ledger.sent();
  auto info = world_.model.async_prefix_info(
      shared.pool, 1 + below(8),
      asio::use_future([](error_code error, const PoolEntryInfo&) { return error; }));
  const error_code error = info.get();
  world_.ledger.completed("prefix_info", error);
  Terms terms;
  terms.has_pool = true;
  expect("prefix_info", error, terms);
}

void Client::settle(size_t most) {
  while (pending_.size() > most) {
    const Pending oldest = std::move(pending_.front());
    pending_.pop_front();
    oldest();
  }
}

// In this order: what is under way may bring more handles.
void Client::give_up_everything() {
  // A request that waits for budget may wait for what our own handles hold.
  prefixes_.clear();
  resumes_.clear();
  while (!pending_.empty()) {
    settle(0);
    prefixes_.clear();
    resumes_.clear();
  }
}

}  // namespace tinyloop::soak
