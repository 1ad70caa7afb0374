#include "stress/tally.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <iterator>

namespace tinyloop::stress {

namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

bool same(const TokenLogprob& a, const TokenLogprob& b) {
  return a.token == b.token && same_bits(a.logprob, b.logprob);
}

bool same(const PositionLogprobs& a, const PositionLogprobs& b) {
  return same(a.chosen, b.chosen) &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(),
                    [](const TokenLogprob& x, const TokenLogprob& y) { return same(x, y); });
}

// Whether `part` is a beginning of `whole`.
template <class Range, class Equal>
bool begins(const Range& part, const Range& whole, Equal equal) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin(), equal);
}

bool is_cut(FinishReason reason) {
  return reason == FinishReason::cancelled || reason == FinishReason::deadline;
}

}  // namespace

void Tally::generated(const Job& job, const error_code& error, const GenerateResult& result) {
  ended(job, error, result.finish_reason, result.timings);
  if (error) return;
  const GenerateResult& whole = workload_.reference(job);
  const auto equal_logprobs = [](const auto& a, const auto& b) { return same(a, b); };
  if (!begins(result.tokens, whole.tokens, std::equal_to<>()) ||
      !begins(result.logprobs, whole.logprobs, equal_logprobs))
    return problem(job, "other tokens or logprobs than in the serial run");
  if (is_cut(result.finish_reason)) return;
  if (result.tokens.size() != whole.tokens.size() || result.text != whole.text ||
      result.logprobs.size() != whole.logprobs.size() ||
      result.finish_reason != whole.finish_reason)
    problem(job, "complete, but not what the serial run gave");
}

void Tally::scored(const Job& job, const error_code& error, const ScoreResult& result) {
  ended(job, error, result.finish_reason, result.timings);
  if (error) return;
  const ScoreResult& whole = workload_.score_reference(job);
  if (!begins(result.logprobs, whole.logprobs, same_bits))
    return problem(job, "other scores than in the serial run");
  if (!is_cut(result.finish_reason) && result.logprobs.size() != whole.logprobs.size())
    problem(job, "complete, but scores are missing");
}

void Tally::ended(const Job& job, const error_code& error, FinishReason reason,
                  const Timings& timings) {
  const bool cancels = job.may_be_cancelled();
  if (!error && !is_cut(reason)) pace_[workload_.is_long(job)].note(timings);
  if (error == errc::overloaded && job.when_full == WhenFull::fail) {
    ++rejected_;
  } else if (error == errc::operation_aborted && cancels) {
    ++cancelled_;
  } else if (error == errc::deadline_exceeded && job.cut == Cut::deadline) {
    ++deadline_;
  } else if (error) {
    problem(job, "unexpected error: " + error.message());
  } else if (!is_cut(reason)) {
    ++ok_;
  } else if (reason == FinishReason::cancelled && cancels) {
    ++cancelled_;
  } else if (reason == FinishReason::deadline && job.cut == Cut::deadline) {
    ++deadline_;
  } else {
    problem(job, std::string("cut short without a cause: ") + to_string(reason));
  }
}

void Tally::problem(const Job& job, const std::string& what) {
  const std::lock_guard lock(mutex_);
  problems_.push_back("kind " + std::to_string(int(job.kind)) + ", cut " +
                      std::to_string(int(job.cut)) + ", aim " + std::to_string(int(job.aim)) +
                      ", pattern " + std::to_string(job.pattern) + ", delay " +
                      std::to_string(job.delay) + ": " + what);
}

void Tally::check_cancels(const actors::CancelCounts& counts, uint64_t least) {
  constexpr const char* kNames[] = {"queued", "prefill", "decode", "completing", "done"};
  static_assert(std::size(kNames) == actors::kCancelPhases);
  std::printf("cancels that landed in");
  for (size_t i = 0; i < actors::kCancelPhases; ++i) {
    const uint64_t count = counts.at(actors::CancelPhase(i));
    std::printf("%s %s %lu", i > 0 ? "," : "", kNames[i], (unsigned long)count);
    if (count < least)
      problem({}, "only " + std::to_string(count) + " cancels have landed in " + kNames[i] + ", " +
                      std::to_string(least) + " were demanded");
  }
  std::printf("\n");
}

void Tally::check_totals(const Statistics& before, const Statistics& after, uint64_t total) {
  const uint64_t accepted = after.accepted - before.accepted;
  const uint64_t rejected = after.rejected - before.rejected;
  const uint64_t ok = after.completed_ok - before.completed_ok;
  const uint64_t cancelled = after.completed_cancelled - before.completed_cancelled;
  const uint64_t deadline = after.completed_deadline - before.completed_deadline;
  const auto expect = [&](bool holds, const char* what) {
    if (!holds) problem({}, what);
  };
  expect(ok_ + cancelled_ + deadline_ + rejected_ + dropped_ == total,
         "not every request ended once");
  expect(accepted + rejected == total, "accepted and rejected are not all that was sent");
  expect(after.completed_failed == before.completed_failed, "requests have failed");
  expect(ok + cancelled + deadline == accepted, "accepted is not the sum of what completed");
  expect(ok >= ok_ && cancelled >= cancelled_ && deadline == deadline_ && rejected >= rejected_ &&
             ok - ok_ + cancelled - cancelled_ + rejected - rejected_ == dropped_,
         "the model's counts differ from the callers' counts");
}

bool Tally::report() const {
  const std::lock_guard lock(mutex_);
  std::printf("ok %lu, cancelled %lu, deadline %lu, rejected %lu, dropped %lu\n",
              (unsigned long)ok_, (unsigned long)cancelled_, (unsigned long)deadline_,
              (unsigned long)rejected_, (unsigned long)dropped_);
  for (const std::string& text : problems_) std::printf("PROBLEM: %s\n", text.c_str());
  return problems_.empty();
}

}  // namespace tinyloop::stress
